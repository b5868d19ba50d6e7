"""Reports: single files that open anywhere, without a server or a network."""

from evenrank.report.document import Report, reload, report
from evenrank.report.explorer import explorer

__all__ = ["Report", "explorer", "reload", "report"]
