"""Rows in columns, handed to whichever library of tables the reader works with."""

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
    """Something with rows: gives them as a frame of polars or pandas, as Arrow or as xarray.

    Whatever speaks Arrow's C stream (DuckDB, Ibis, ...) takes it as it is.
    """

    _along = "row"  # xarray's dimension

    @abstractmethod
    def _columns(self) -> Mapping[str, ArrayLike]:
        """Give the columns, all of one length."""

    def to_polars(self) -> pl.DataFrame:
        """Give a polars frame."""
        import polars as pl

        return pl.DataFrame(self._columns(), strict=False)  # whole numbers among others are numbers

    def to_pandas(self) -> pd.DataFrame:
        """Give a pandas frame (needs pandas)."""
        frame: pd.DataFrame = need("pandas").DataFrame(self._columns())
        return frame

    def to_arrow(self) -> pa.Table:
        """Give an Arrow table (needs pyarrow)."""
        return need("pyarrow").table(self)

    def to_xarray(self) -> xr.Dataset:
        """Give an xarray data set: a variable per column, along the dimension `row` (needs xarray)."""
        dataset: xr.Dataset = need("xarray").Dataset(
            {name: (self._along, np.asarray(column)) for name, column in self._columns().items()}
        )
        return dataset

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the columns to anything that speaks Arrow, without a copy through Python."""
        return self.to_polars().__arrow_c_stream__(requested_schema)
