"""What a run gained: an HTML page, and the model card of its encoder."""

from isotune.report.card import write_card
from isotune.report.page import write_report

__all__ = ["write_card", "write_report"]
