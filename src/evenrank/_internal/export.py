"""Mix-in that exports columns to polars, pandas, Arrow and xarray."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.optional import need

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import xarray as xr


class Framed(ABC):
    """A table that exports itself to polars, pandas, Arrow and xarray.

    Libraries that read Arrow's C stream interface (DuckDB, Ibis, ...) accept it directly.
    """

    _along = "row"  # the name of xarray's dimension

    @abstractmethod
    def _columns(self) -> Mapping[str, ArrayLike]:
        """Return the columns, all of one length."""

    def to_polars(self) -> pl.DataFrame:
        """Convert to a polars data frame.

        Returns
        -------
        polars.DataFrame
            A column for each column.
        """
        import polars as pl

        return pl.DataFrame(self._columns(), strict=False)  # whole numbers among others are numbers

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a pandas data frame (requires pandas).

        Returns
        -------
        pandas.DataFrame
            A column for each column.
        """
        frame: pd.DataFrame = need("pandas").DataFrame(self._columns())
        return frame

    def to_arrow(self) -> pa.Table:
        """Convert to an Arrow table (requires pyarrow).

        Returns
        -------
        pyarrow.Table
            A column for each column.
        """
        return need("pyarrow").table(self)

    def to_xarray(self) -> xr.Dataset:
        """Convert to an xarray data set (requires xarray).

        Returns
        -------
        xarray.Dataset
            A variable for each column, along one dimension.
        """
        dataset: xr.Dataset = need("xarray").Dataset(
            {name: (self._along, np.asarray(column)) for name, column in self._columns().items()}
        )
        return dataset

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the columns through the Arrow PyCapsule interface."""
        return self.to_polars().__arrow_c_stream__(requested_schema)
