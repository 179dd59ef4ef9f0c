import re

from engine.models.lower import LOWERINGS
from engine.models.opstable import PAGE, ROOT, table


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == table(), "type: python -m engine.models.opstable"


def test_every_operator_file_is_in_the_table_and_every_link_exists() -> None:
    text = table()
    files = {path.stem for path in (ROOT / "engine" / "native" / "ops").glob("*.cpp")} - {"op"}
    assert files <= {name.lower() for name in LOWERINGS}
    for link in re.findall(r"\(\.\./([^)]+)\)", text):
        assert (ROOT / link).is_file(), link
