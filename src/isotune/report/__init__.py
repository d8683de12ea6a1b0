"""What a run gained: an HTML page, and the model card of its encoder. And charts and templates for pages of others."""

from isotune.report.card import write_card
from isotune.report.chart import Band, Bars, Chart, Mark, Panel, Series
from isotune.report.drawing import save_page, save_png, svg
from isotune.report.figures import cosine_panel
from isotune.report.page import write_report
from isotune.report.stages import group_by_stage, read_records
from isotune.report.style import BLUE, INK, VERMILION, Look, look
from isotune.report.templates import template

__all__ = [
    "BLUE",
    "INK",
    "VERMILION",
    "Band",
    "Bars",
    "Chart",
    "Look",
    "Mark",
    "Panel",
    "Series",
    "cosine_panel",
    "group_by_stage",
    "look",
    "read_records",
    "save_page",
    "save_png",
    "svg",
    "template",
    "write_card",
    "write_report",
]
