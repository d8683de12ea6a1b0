"""The templates of the package: HTML pages, the model card, and the example of an ONNX folder."""

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def template(name: str, folder: str = "report", **filters: Callable[..., str]) -> Template:
    """A template, with these filters. A template of HTML escapes the values that it shows."""
    is_html = name.endswith(".html.j2")
    environment = Environment(
        loader=PackageLoader("isotune", folder),
        autoescape=is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not is_html,
    )
    environment.filters |= filters
    return environment.get_template(name)
