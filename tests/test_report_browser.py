"""The page of a fitted classifier in headless Chromium, where there is one."""

from __future__ import annotations

import pytest

from browsing import NARROW, emulate, open_browser, opened, wait
from fitted import BREAKS, HOSTILE, fitted
from pdgnn.report.fitted import fitted_page


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(fitted_page(fitted()), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def page(browser, address):
    """The page, at rest."""
    with opened(browser, address) as found:
        wait(browser, "return document.body.dataset.moving === 'false'")
        yield found


def state(browser) -> dict[str, str]:
    return browser.execute_script("return {...document.body.dataset}")


def element(browser, css: str):
    return browser.find_element("css selector", css)


def press(browser, css: str, *keys: str) -> None:
    found = element(browser, css)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    found.send_keys(*keys)


def find(browser, words: str) -> None:
    """Type into the search and take the first suggestion."""
    from selenium.webdriver.common.keys import Keys

    press(browser, "#search", Keys.CONTROL, "a")
    press(browser, "#search", words)
    wait(browser, "return document.querySelector('#found li[role=option]')")
    press(browser, "#search", Keys.ENTER)


def test_the_slider_moves_the_points(page):
    from selenium.webdriver.common.keys import Keys

    before = state(page)
    assert (before["gamma"], before["colour"]) == ("0.3", "label")
    picture = page.execute_script("return document.getElementById('canvas').toDataURL()")
    press(page, "#gamma", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    wait(page, "return document.body.dataset.gamma === '0.5'")
    wait(page, "return document.body.dataset.moving === 'false'")
    after = state(page)
    assert after["first"] != before["first"]
    assert page.execute_script("return document.getElementById('canvas').toDataURL()") != picture
    assert element(page, "#gamma").get_attribute("aria-valuetext") == "γ = 0.5"
    assert element(page, "#gamma-value").text == "0.5"
    press(page, "#gamma", Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    wait(page, "return document.body.dataset.gamma === '0.3'")
    wait(page, "return document.body.dataset.moving === 'false'")
    assert state(page)["first"] == before["first"]


def test_gamma_runs_by_itself(page):
    press(page, "#play", " ")
    wait(page, "return Number(document.body.dataset.gamma) >= 0.5")
    press(page, "#play", " ")


def test_colours_are_of_labels_or_predictions(page):
    picture = page.execute_script("return document.getElementById('canvas').toDataURL()")
    press(page, "input[name=colour][value=guess]", " ")
    wait(page, "return document.body.dataset.colour === 'guess'")
    assert "no label" not in element(page, "#legend").text
    assert page.execute_script("return document.getElementById('canvas').toDataURL()") != picture


def test_a_node_is_found_by_its_id(page):
    find(page, "user-00042")
    wait(page, "return document.body.dataset.selected === 'user-00042'")
    said = element(page, "#node").text
    assert said.startswith("user-00042")
    for words in ("Prediction:", "Probabilities", "Neighbours, by weight", "Most similar labelled"):
        assert words in said
    assert "came over rewired edges" in said
    widths = page.execute_script(
        "return [...document.querySelectorAll('#node li.row .gauge i')].map(i => i.offsetWidth)"
    )
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]
    element(page, "#node ul button.row").send_keys(" ")  # a neighbour
    wait(page, "return document.body.dataset.selected !== 'user-00042'")


def test_what_is_not_there_is_said(page):
    press(page, "#search", "nobody")
    wait(page, "return document.getElementById('found').textContent.includes('No such node')")


def test_a_point_is_clicked(page):
    page.execute_script("document.getElementById('canvas').scrollIntoView({block: 'center'})")
    before = state(page)["selected"]
    assert before not in (HOSTILE, "")
    page.execute_script(
        """const canvas = document.getElementById('canvas'), box = canvas.getBoundingClientRect();
        const [x, y] = document.body.dataset.first.split(',').map(Number);
        for (const kind of ['pointermove', 'click'])
          canvas.dispatchEvent(new PointerEvent(kind, {clientX: box.left + x, clientY: box.top + y,
            bubbles: true}));"""
    )
    wait(page, "return !document.getElementById('tip').hidden")
    assert state(page)["selected"] == HOSTILE  # the first point


@pytest.mark.parametrize("words", [HOSTILE, BREAKS.replace("\u2028", " ")])
def test_a_hostile_id_is_text(page, words):
    title = page.title
    find(page, words)
    wait(page, "return document.querySelector('#node h3').textContent.includes('script>')")
    assert element(page, "#node h3").text == words.strip()
    assert page.title == title
    assert page.execute_script("return document.querySelectorAll('#node script, img').length") == 0


def test_the_policy_stops_what_escaping_might_miss(page):
    ran = page.execute_script(
        """const bad = document.createElement('script'); bad.textContent = 'window.ran = 1';
        document.body.append(bad); return window.ran === 1"""
    )
    assert ran is False
    (entry,) = page.get_log("browser")
    assert "Content Security Policy" in entry["message"]


def test_the_theme_follows_the_system_and_the_button(page, address):
    def shade() -> str:
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    light = shade()
    emulate(page, width=1280, scheme="dark")
    wait(page, "return document.body.dataset.theme === 'dark'")
    dark = shade()
    assert light != dark
    press(page, "#theme", " ")
    wait(page, "return document.body.dataset.theme === 'light'")
    assert shade() == light
    page.get(address)  # remembered
    wait(page, "return document.body.dataset.ready === 'true'")
    assert shade() == light


def test_a_phone_scrolls_one_way_and_has_room_for_fingers(page, address):
    emulate(page, width=NARROW, scheme="light")
    page.get(address)
    wait(page, "return document.body.dataset.ready === 'true'")
    assert page.execute_script("return document.documentElement.scrollWidth") == NARROW
    small = page.execute_script(
        """return [...document.querySelectorAll('button, a, summary, #gamma, #search')]
        .filter(e => e.offsetParent && e.getBoundingClientRect().height < 44)
        .map(e => e.outerHTML)"""
    )
    assert small == []


def test_without_a_map_the_search_still_works(page, tmp_path):
    from pdgnn import Graph

    file = tmp_path / "report.html"
    graph = Graph.from_edge_index([[0], [1]], num_nodes=30)
    file.write_text(fitted_page(fitted(graph=graph, classes=2)), encoding="utf-8")
    page.get(file.as_uri())
    wait(page, "return document.body.dataset.ready === 'true'")
    find(page, "user-00009")
    wait(page, "return document.body.dataset.selected === 'user-00009'")
    assert "It has no neighbours." in element(page, "#node").text
