"""What a run gained: an HTML page, and the model card of its encoder. And figures and templates for pages of others."""

from isotune.report.card import write_card
from isotune.report.drawing import (
    BLUE,
    INK,
    RING,
    VERMILION,
    legend_below,
    look,
    names_down,
    panels,
    save_png,
    styled,
    svg,
    whole_numbers,
)
from isotune.report.figures import cosines_against_gold
from isotune.report.page import write_report
from isotune.report.stages import group_by_stage, read_records, sealed
from isotune.report.templates import template
