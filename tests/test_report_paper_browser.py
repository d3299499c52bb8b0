"""The page of a store of runs in headless Chromium, where there is one."""

from __future__ import annotations

import pytest

from browsing import NARROW, emulate, open_browser, opened, wait
from outcomes import HOSTILE
from papers import ABOUT, small_runs
from pdgnn.report.paper import paper_page
from pdgnn.report.paper_facts import read_paper
from pdgnn.training.store import Store

READY = "return document.body.dataset.ready === 'true'"
FILLS = "return [...document.querySelectorAll('.heat rect')].map(r => r.getAttribute('fill'))"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with Store(folder / "runs.sqlite") as store:
        store.merge(small_runs(), {1: ABOUT})
    file = folder / "page.html"
    made = read_paper(folder / "runs.sqlite", root=folder)
    file.write_text(paper_page(made, title=HOSTILE), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as found:
        yield found


def choose(page, name: str, value: str) -> None:
    box = page.find_element("css selector", f"input[name={name}][value='{value}']")
    page.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", box)
    box.click()


def tip(page) -> str:
    return page.execute_script(
        "const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent"
    )


def point_at(page, kind: str, *, alpha: int, gamma: int) -> None:
    """Dispatch a pointer event on a cell of the first map; its place on both axes."""
    page.execute_script(
        """const [kind, a, g] = arguments, svg = document.querySelector('.heat svg');
        const rect = [...svg.querySelectorAll('rect')]
          .find(r => r.getAttribute('x') == a && r.getAttribute('y') == 10 - g);
        rect.dispatchEvent(new PointerEvent(kind, {bubbles: true, pointerType: 'touch'}));""",
        *(kind, alpha, gamma),
    )


def test_a_cell_says_its_numbers(page):
    assert tip(page) == ""
    for kind in ("pointermove", "pointerdown"):  # of a mouse, of a finger
        point_at(page, kind, alpha=3, gamma=6)
        assert tip(page) == "α 0.3, γ 0.6, depth 3\nvalidation 47.00\ntest 45.00 ± 0.30\n10 splits"
    point_at(page, "pointermove", alpha=5, gamma=5)
    assert tip(page) == "α 0.5, γ 0.5\nnot trained so far"


def test_the_keyboard_walks_over_a_map(page):
    from selenium.webdriver.common.keys import Keys

    svg = page.find_element("css selector", ".heat svg")
    svg.send_keys(Keys.ARROW_RIGHT)
    assert tip(page).startswith("α 0, γ 0\n")
    svg.send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_RIGHT)
    assert tip(page).startswith("α 0.1, γ 0.2\n")
    svg.send_keys(Keys.ESCAPE)
    assert tip(page) == ""


def test_depth_and_score_are_switched(page):
    assert page.execute_script("return document.body.dataset.depth") == "best"
    first = page.execute_script(FILLS)
    ends = "return [...document.querySelectorAll('.heat .scale output')].map(o => o.textContent)"
    best = page.execute_script(ends)
    choose(page, "depth", "2")
    wait(page, "return document.body.dataset.depth === '2'")
    assert page.execute_script(ends)[1] == "46.0"
    assert best[1] == "47.0"
    choose(page, "score", "t")
    wait(page, "return document.body.dataset.score === 't'")
    assert page.execute_script(ends)[1] == "44.0"
    choose(page, "depth", "")
    choose(page, "score", "v")
    wait(page, "return document.body.dataset.depth === 'best'")
    assert page.execute_script(FILLS) == first


def test_the_script_draws_what_the_page_was_written_with(page, address):
    drawn = page.execute_script(FILLS)
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.get(address)
        assert page.execute_script(FILLS) == drawn
        assert page.execute_script("return document.getElementById('heat-controls').hidden")
        assert page.execute_script("return document.querySelectorAll('.heat title').length") > 0
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_hostile_names_are_text(page):
    assert page.execute_script(
        "return document.querySelector('h1').textContent"
    ) == HOSTILE.replace("\x1b", " ")
    assert page.execute_script("return document.querySelectorAll('script').length") == 2


def test_the_theme(page, address):
    def shade() -> str:
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    light = shade()
    emulate(page, width=1280, scheme="dark")
    wait(page, "return document.body.dataset.theme === 'dark'")
    assert shade() != light
    page.find_element("id", "theme").click()
    wait(page, "return document.body.dataset.theme === 'light'")
    assert shade() == light
    page.get(address)  # remembered
    wait(page, READY)
    assert shade() == light


def test_a_phone_scrolls_one_way(page, address):
    emulate(page, width=NARROW, scheme="light")
    page.get(address)
    wait(page, READY)
    page.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.execute_script("return document.documentElement.scrollWidth") == NARROW
    point_at(page, "pointerdown", alpha=9, gamma=6)
    assert tip(page) != ""
    assert page.execute_script("return document.documentElement.scrollWidth") == NARROW
    small = page.execute_script(
        """return [...document.querySelectorAll('button, nav a, summary, .controls label')]
        .filter(e => e.offsetParent && e.getBoundingClientRect().height < 44)
        .map(e => e.outerHTML)"""
    )
    assert small == []


def test_print_is_light_open_and_without_controls(page):
    emulate(page, width=800, scheme="dark", media="print")
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    shut = "return document.querySelectorAll('details:not([open])').length"
    assert page.execute_script(shut) == 0
    shade = "return getComputedStyle(document.body).backgroundColor"
    assert page.execute_script(shade) == "rgb(253, 253, 252)"
    for css in ("#theme", "nav", "#heat-controls", "#copy"):
        assert not page.find_element("css selector", css).is_displayed()
    cells = "[...document.querySelectorAll('.scores :is(th, td)')]"
    sizes = f"return {cells}.map(c => getComputedStyle(c).fontSize)"
    assert len(set(page.execute_script(sizes))) == 1
    assert page.execute_script("return document.documentElement.scrollWidth") <= 800
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script(shut) > 0


def test_a_table_is_copied(page):
    page.execute_script("for (const d of document.querySelectorAll('#copy details')) d.open = true")
    button = page.find_element("css selector", ".copy button")
    page.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button
    )
    button.click()
    wait(page, "return document.querySelector('.copy button').textContent === 'Copied'")
