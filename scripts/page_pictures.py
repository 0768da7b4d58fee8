"""Take the pictures of the page in docs/page.md: `python scripts/page_pictures.py`. It needs Debian's chromium.

The page shows sample exchanges that the library itself translates, so a picture is as true as the page.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.page.samples import fill
from tests.page.test_browser import served
from toolwire import records
from toolwire.page import Hosts, PageApplication, Sources

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
# About one and a half times as wide as the column of the site, so that text stays readable, and sharp.
WIDTH, HEIGHT, SCALE = 1100, 700, 1.5
WIDER = {"traffic": 1260}  # its columns


def main() -> None:
    """Take six pictures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        records.open(f"sqlite:///{folder}/records.db") as store,
        served(PageApplication(Sources(records=store, where="127.0.0.1:8080"), Hosts())) as url,
        sync_playwright() as driver,
    ):
        made = fill(store, 12)
        codex = next(record.id for record in made if record.key_name == "ci")
        broken = [record.id for record in made if record.conversation == "conv_0010"][5]
        pictures = {
            "traffic": ("/page/traffic", "light"),
            "exchange": (f"/page/exchanges/{codex}", "light"),
            "exchange-dark": (f"/page/exchanges/{codex}", "dark"),
            "conversation": ("/page/conversations/conv_0010", "light"),
            "context": (f"/page/exchanges/{broken}/context", "light"),
            "paste": ("/page/paste?sample=request&to=anthropic", "light"),
        }
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (path, scheme) in pictures.items():
            size = {"width": WIDER.get(name, WIDTH), "height": HEIGHT}
            tab = browser.new_page(viewport=size, color_scheme=scheme, device_scale_factor=SCALE)
            tab.goto(url + path)
            tab.wait_for_timeout(500)
            if name == "paste":
                tab.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            tab.screenshot(path=FOLDER / f"{name}.png")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
