"""The playground as a page: its links, its size, and that everybody can use it."""

import re
from itertools import product

import pytest

from tests.browser import FAULTS
from tests.conftest import ROOT, some_of
from tests.playground.conftest import STATIC

MAX_BYTES = 200_000

EXPECTED = re.compile("wider than the cell|overlapping: <[A-Z]+>.* and <[A-Z]+>", re.DOTALL)
"""Code and tables scroll by themselves, and words of a paragraph that are wrapped share its box."""

STATES = {
    "layout": "#v1/layout?shape=8,16&mesh=x:2,y:4&spec=y,x",
    "layout in 3-D": "#v1/layout?shape=4,8,8&mesh=x:2,y:2,z:2&spec=x,-,z.y",
    "layout with copies": "#v1/layout?shape=8&mesh=x:2,y:4&devices=7-0&spec=x",
    "layout on 512 devices": "#v1/layout?shape=512,512&mesh=x:16,y:32&spec=x,y",
    "all-to-all": "#v1/reshard?shape=8,16&mesh=x:2,y:4&from=y,-&to=-,y&step=1",
    "three steps in 3-D": "#v1/reshard?shape=4,8,8&mesh=x:2,y:2,z:2&from=x,-,z.y&to=z,y,-&step=2",
    "partial sums": "#v1/reshard?shape=8&mesh=x:2,y:4&from=x,unreduced=y&to=x.y&step=1",
    "gather on 512 devices": "#v1/reshard?shape=512,512&mesh=x:16,y:32&from=x,y&to=-,y&step=1",
    "matmul": "#v1/matmul?i=8192&j=4096&k=16384&mesh=x:4,y:4&A=x,-&B=x,y&C=x,y",
    "matmul on Ethernet": "#v1/matmul?i=64&j=64&k=64&mesh=x:2,y:4&A=x,y&B=y,-&C=x,-"
    "&machine=H100%20100G%20Ethernet&way=0",
    "transformer": "#v1/transformer?model=Llama%203%2070B&data=2&fsdp=32&tensor=8&sequence=1"
    "&batch=256&length=4096",
    "refusal": "#v1/layout?shape=7&mesh=x:2&spec=x",
}

SMALL = [name for name in STATES if "512" not in name]
"""Pages that can be looked at in a second."""


def go(page, fragment):
    """Open a link anew."""
    address = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(address + fragment)


def shown(page, selector):
    return page.locator(selector).inner_text()


def test_it_is_small():
    assert 0 < sum(path.stat().st_size for path in STATIC.iterdir()) < MAX_BYTES


@pytest.mark.parametrize(
    ("width", "theme"),
    [(400, "light"), pytest.param(900, "dark", marks=pytest.mark.slow), (1400, "dark")],
)
def test_nothing_is_clipped_faint_or_too_wide(page, width, theme):
    page.set_viewport_size({"width": width, "height": 1000})
    for name in some_of(SMALL, 5):
        go(page, STATES[name])
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        page.wait_for_timeout(200)  # colours are on their way from one theme to the other
        faults = [fault for fault in page.evaluate(FAULTS) if not EXPECTED.match(fault)]
        assert not faults, (name, faults[:5])
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("name", some_of(SMALL, 4))
def test_axe_finds_nothing(page, name):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    go(page, STATES[name])
    page.evaluate("document.querySelectorAll('details').forEach((fold) => fold.open = true)")
    for theme in ("light", "dark"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        page.wait_for_timeout(200)
        found = axe.run(page).response["violations"]
        assert not [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found]


@pytest.mark.parametrize("name", some_of([*STATES], 5))
def test_a_link_holds_the_state(page, name):
    go(page, STATES[name])
    before = shown(page, ".part")
    page.reload()
    assert page.evaluate("location.hash") == STATES[name]
    assert page.locator(".results svg").count() or "refusal" in name
    assert shown(page, ".part") == before


def test_a_change_is_in_the_link(page):
    page.get_by_label("Partition spec").fill('P(("y", "x"), None)')
    assert "spec=y.x,-" in page.evaluate("location.hash")
    before = shown(page, ".part")
    page.reload()
    assert shown(page, ".part") == before


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        ("#v9/layout?shape=8", "made by another version of the playground (v9)"),
        ("#v1/juggling?balls=3", "no part called juggling"),
        ("#v1/layout?shape=%E0%A4", "This link is incomplete"),
    ],
)
def test_a_link_that_cannot_be_read_gets_a_sentence(page, fragment, words):
    go(page, fragment)
    assert words in page.get_by_role("alert").first.inner_text()
    assert page.locator("svg[role=img]").count() == 2


def test_another_link_in_the_same_tab_changes_the_page(page):
    page.evaluate("location.hash = '#v1/layout?shape=6&mesh=x:3&spec=x'")
    page.wait_for_function("document.body.innerText.includes('3 blocks of (2,)')")


def test_pointing_at_a_device_lights_its_block(page):
    go(page, STATES["layout with copies"])
    page.locator("svg .tile[data-devices='5']").hover()
    assert re.search(
        r"Device 5, at x = 0, y = 2, holds x\[0:4\].*devices 4, 6 and 7", shown(page, ".pointed")
    )
    assert page.locator("svg:nth-of-type(1) .tile.lit").count() == 4 + 1


def test_axes_are_dragged_onto_dimensions(page):
    target = page.locator(".board-row").nth(0).bounding_box()
    page.locator(".chip[data-axis=x]").hover()
    page.mouse.down()
    page.mouse.move(target["x"] + target["width"] - 5, target["y"] + 10, steps=4)
    page.mouse.up()
    assert page.get_by_label("Partition spec").input_value() == 'P(("y", "x"), None)'


def test_an_axis_that_is_dragged_stops_being_unreduced_and_others_stay_so(page):
    go(page, "#v1/layout?shape=8&mesh=x:2,y:4&spec=unreduced=x.y")
    assert "a partial sum of x[0:8]" in shown(page, ".pointed")
    assert page.locator(".chip[data-axis=x]").inner_text() == "x: 2 Σ"
    page.locator(".chip[data-axis=y]").press("ArrowUp")
    assert page.get_by_label("Partition spec").input_value() == 'P("y", unreduced={"x"})'


def test_the_keyboard_moves_axes_and_devices(page):
    page.locator(".chip[data-axis=x]").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert page.get_by_label("Partition spec").input_value() == 'P(("x", "y"), None)'
    assert page.evaluate("document.activeElement.dataset.axis") == "x"
    page.get_by_role("slider", name="Device").press("ArrowRight")
    assert shown(page, ".pointed").endswith("No other device does.")
    assert "Device 1" in shown(page, ".pointed")


def test_the_keyboard_reaches_all_that_a_pointer_reaches(page):
    wanted = page.evaluate(
        """[...document.querySelectorAll(".playground :is(a, button, input, select, summary)")]
          .filter((e) => e.checkVisibility()).length"""
    )
    page.locator(".tabs a").first.focus()
    page.keyboard.press("Shift+Tab")
    reached = set()
    for _ in range(3 * wanted):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                """(() => { const e = document.activeElement;
                return e.matches(".playground :is(a, button, input, select, summary)")
                  ? [...document.querySelectorAll("*")].indexOf(e) : -1; })()"""
            )
        )
    assert len(reached - {-1}) == wanted


def test_a_move_is_played_step_by_step(page):
    go(page, STATES["three steps in 3-D"].replace("step=2", "step=0"))
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("location.hash.includes('step=3')", timeout=20_000)
    page.get_by_role("button", name="Play").wait_for()
    assert "Device 0 holds x[0:2, 0:4, 0:8]" in shown(page, ".player")


@pytest.mark.parametrize(("motion", "count"), [("reduce", 0), ("no-preference", 24)])
def test_pieces_move_unless_the_reader_wants_no_motion(page, motion, count):
    page.emulate_media(reduced_motion=motion)
    go(page, STATES["all-to-all"])
    moving = page.evaluate(
        "[...document.querySelectorAll('.moving')].filter((e) => e.getAnimations().length).length"
    )
    assert moving == count


@pytest.mark.parametrize(
    ("fragment", "stripes"),
    [("from=-,unreduced=x&to=x", 2), ("from=unreduced=x.y&to=", 8)],
)
def test_a_sum_shows_the_colours_of_all_devices_that_are_in_it(page, fragment, stripes):
    go(page, f"#v1/reshard?shape=8,16&mesh=x:2,y:4&{fragment}&step=1")
    boxes = page.evaluate(
        """[...document.querySelectorAll(".pieces > g")].map((piece) => {
          const box = piece.querySelector("rect");
          return [piece.getAttribute("transform"), box.getAttribute("fill"), box.getAttribute("x")];
        })"""
    )[:stripes]
    assert len({place for place, _, _ in boxes}) == 1
    assert len({colour for _, colour, _ in boxes}) == stripes
    assert len({left for _, _, left in boxes}) == stripes


def test_pieces_can_be_seen_on_512_devices(page):
    go(page, "#v1/reshard?shape=512,512&mesh=x:16,y:32&from=x,y&to=y,x")
    sides = page.evaluate(
        """[...document.querySelectorAll(".pieces rect")].map(
          (e) => Math.min(e.getBoundingClientRect().width, e.getBoundingClientRect().height))"""
    )
    assert len(sides) == 512
    assert min(sides) >= 2


LINES = {"x:512": "x,-", "x:1,y:512": "y,-", "x:512,y:1": "x,-", "x:4,y:128": "x.y,-"}
"""Meshes with many devices in a row, and specs that shard 512 rows over all of them."""


@pytest.mark.parametrize(("width", "mesh"), some_of([*product((400, 1400), LINES)], 4))
def test_a_row_of_512_devices_has_colours_and_fits(page, width, mesh):
    page.set_viewport_size({"width": width, "height": 1000})
    go(page, f"#v1/layout?shape=512,16&mesh={mesh}&spec={LINES[mesh]}")
    for picture in page.locator(".pictures svg").all():
        box = picture.bounding_box()
        assert 60 < box["height"] < 500
        lined = picture.locator(".tile:not(.lit) rect").evaluate_all(
            "tiles => tiles.filter((e) => getComputedStyle(e).stroke !== 'none').length"
        )
        assert lined == 0  # lines that close would hide the colours
    assert page.locator(".pictures svg").first.bounding_box()["width"] > 100


@pytest.mark.parametrize("width", [900, 1400])
def test_a_3d_mesh_of_512_devices_does_not_fill_several_screens(page, width):
    page.set_viewport_size({"width": width, "height": 1000})
    go(page, "#v1/layout?shape=16,64,64&mesh=x:8,y:8,z:8&spec=x,y,z")
    assert page.locator(".pictures svg").first.bounding_box()["height"] < 1000
    sizes = page.locator(".tile text").evaluate_all("(all) => all.map((e) => e.style.fontSize)")
    assert len(set(sizes)) <= 1


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([3], "device 3"),
        ([1, 2, 3], "devices 1 to 3"),
        ([4, 6, 7], "devices 4, 6 and 7"),
        ([*range(64, 77), *range(78, 96)], "devices 64 to 76 and 78 to 95"),
        (list(range(0, 512, 2)), "256 devices from 0 to 510"),
    ],
)
def test_many_devices_are_named_in_a_few_words(ask, ids, words):
    assert ask("words.manyDevices", [[ids]]) == [words]


def test_pictures_say_what_their_colours_mean(page):
    go(page, STATES["layout with copies"])
    assert "grey block is held by several devices" in shown(page, ".legend")
    go(page, STATES["layout on 512 devices"])
    assert "same colour need not hold the same block" in shown(page, ".legend")
    go(page, STATES["all-to-all"])
    assert "colour is the device that a piece came from" in shown(page, ".legend")


def test_the_page_says_where_xla_may_do_better(page):
    go(page, "#v1/reshard?shape=8,16&mesh=x:2,y:4&from=x,y&to=y,x")
    assert shown(page, ".sentence").startswith("3 all-to-alls: each device sends 120 bytes.")
    assert "some device has to receive at least 64 bytes" in shown(page, ".sentence")
    assert "With y (4) taken as 2 × 2, 96 bytes are enough" in shown(page, ".sentence")
    go(page, "#v1/reshard?shape=4,8,8&mesh=x:2,y:2,z:2&from=x,-,z.y&to=z,y,-")
    assert "XLA may take other steps" in shown(page, ".sentence")
    go(page, STATES["all-to-all"])
    assert "XLA may" not in shown(page, ".sentence")


@pytest.mark.parametrize(
    ("fragment", "colours"),
    [("from=y,-&to=-,y", 4), ("from=-,-&to=x,y", 1), ("from=x,unreduced=y&to=x.y,-", 8)],
)
def test_copies_have_one_colour(page, fragment, colours):
    go(page, f"#v1/reshard?shape=8,16&mesh=x:2,y:4&{fragment}")
    fills = page.locator(".pieces rect").evaluate_all(
        "(all) => all.map((e) => e.style.fill || e.getAttribute('fill'))"
    )
    assert len(fills) == 8
    assert len(set(fills)) == colours
    assert "copies have the colour of the first device" in shown(page, ".legend")


@pytest.mark.parametrize(
    "fragment", ["#v1/layout", "#v1/layout?mesh=x:8&spec=x", "#v1/reshard", "#v1/matmul"]
)
def test_code_states_the_mode_of_its_mesh(page, fragment):
    go(page, fragment)
    assert "axis_types=(jax.sharding.AxisType." in shown(page, ".code-block code")


def test_a_larger_matmul_becomes_bound_by_arithmetic(page):
    go(page, "#v1/matmul?i=64&j=64&k=64&mesh=x:4,y:4&A=x,-&B=x,y&C=x,y")
    assert "Communication is the limit" in shown(page, ".sentence")
    assert "Starting a message" in shown(page, ".sentence")
    for name in ("i", "j", "k"):
        page.get_by_role("slider", name=f"{name}:").fill("17")
    assert "Arithmetic is the limit" in shown(page, ".sentence")
    assert "Starting a message" not in shown(page, ".sentence")
    assert page.locator("circle.trail").count() > 1
    assert "i=131072" in page.evaluate("location.hash")


REPLICATED = "#v1/matmul?i=8192&j=4096&k=16384&mesh=x:4,y:4&A=x,-&B=-,y&C=x,y"


def test_a_faster_way_is_higher_on_the_roofline(page):
    go(page, REPLICATED)
    heights = page.evaluate(
        "[...document.querySelectorAll('.point')].map((e) => +e.cy.baseVal.value)"
    )
    assert heights == sorted(heights)
    assert len(set(heights)) > 2
    assert len(heights) == page.locator(".steps li").count()  # also the way that sends nothing


def test_a_way_says_if_devices_repeat_each_others_work(page):
    go(page, REPLICATED)
    assert "its share" not in shown(page, ".sentence")
    assert "4 times its share" in shown(page, ".steps li:nth-child(2)")
    page.get_by_role("button", name="Way 2").click()
    assert "computes 4 times its share, because devices repeat" in shown(page, ".sentence")
    go(page, "#v1/matmul?mesh=x:4,y:4&A=&B=&C=x,y")
    assert page.locator(".steps li").count() == 1  # the others send nothing too, and compute more


def test_the_page_warns_where_fast_links_do_not_reach(page):
    for devices, is_warned in [("x:8", False), ("x:4,y:4", True)]:
        go(page, f"#v1/matmul?mesh={devices}&A=x,-&B=x,-&C=x,-&machine=H100%20NVLink")
        assert ("At most 8 chips of H100 NVLink" in shown(page, ".sentence")) == is_warned
    go(page, "#v1/matmul?mesh=x:16&A=x,-&B=&C=x,-&machine=H100%20NVLink")
    assert shown(page, ".sentence").startswith("Nothing is sent.")
    assert "links" not in shown(page, ".sentence")
    go(page, STATES["transformer"])
    assert "or slower links" in page.get_by_role("row", name="H100 NVLink").inner_text()
    assert "At most 256 chips of TPU v5e" in shown(page, ".legend")


def test_a_memory_that_is_nearly_full_is_not_called_a_fit(page):
    go(page, "#v1/transformer?model=Mixtral%208x7B")
    assert "barely fits into" in page.get_by_role("row", name="TPU v5e").inner_text()
    assert "logits" in shown(page, ".legend")
    go(page, "#v1/transformer?model=Llama%202%207B")
    assert "barely" not in shown(page, ".results").lower()


def test_a_devices_memory_is_in_the_unit_of_its_limits(page):
    go(page, STATES["transformer"])
    headings = ["Memory of a device", "What a device sends in a step"]
    for heading in headings:
        bytes_ = page.get_by_role("region", name=heading).locator("td:last-child").all_inner_texts()
        assert len(bytes_) > 2
        assert all(text.endswith(" GiB") for text in bytes_)
    assert re.search(r": [\d.]+ GiB on each device", shown(page, ".sentence"))
    assert "16 GB as 14.9 GiB, 80 GB as 74.5 GiB and 95 GB as 88.5 GiB" in shown(page, ".legend")


def test_no_time_is_called_the_most_that_a_step_takes(page):
    for part in ("matmul", "transformer"):
        go(page, f"#v1/{part}")
        page.get_by_text("What this page assumes").click()
        words = shown(page, ".results").lower()
        assert "full speed" in words
        assert "at most their sum" not in words


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Data", "copies"), ("FSDP", "weights"), ("Tensor", "heads"), ("Sequence", "context")],
)
def test_each_way_of_sharding_a_transformer_says_what_it_shards(page, name, hint):
    go(page, STATES["transformer"])
    described = page.get_by_label(name, exact=True).get_attribute("aria-describedby")
    assert hint in shown(page, f"#{described}")


def test_the_page_warns_that_a_tpus_devices_may_be_in_another_order(page):
    page.get_by_text("Other devices, or in another order").click()
    assert "On TPUs, jax.make_mesh may order them" in shown(page, ".controls details")


def test_on_a_phone_the_table_shows_the_limit(page):
    page.set_viewport_size({"width": 400, "height": 900})
    go(page, STATES["transformer"])
    cells = page.locator("tbody").first.locator("td:last-child")
    assert cells.count() == 4
    boxes = [cell.bounding_box() for cell in cells.all()]
    assert max(box["x"] + box["width"] for box in boxes) <= 400


@pytest.mark.parametrize(("width", "fsdp"), some_of([*product((400, 900), (1, 2, 4, 8, 16))]))
def test_no_line_crosses_the_name_of_a_machine(page, width, fsdp):
    page.set_viewport_size({"width": width, "height": 900})
    go(page, f"#v1/transformer?model=Llama%203%2070B&fsdp={fsdp}&tensor=8&batch=64&length=1024")
    crossed = page.evaluate(
        """(() => {
          const box = (e) => e.getBoundingClientRect();
          const lines = [...document.querySelectorAll("path.roof")].map(box);
          const isCrossed = (text) => lines.some(({left, top}) =>
            text.left < left && left < text.right && top < text.bottom - 4);
          return [...document.querySelectorAll("path.roof + text")].map(box).filter((text) =>
            text.left < 0 || text.right > innerWidth || isCrossed(text)).length;
        })()"""
    )
    assert crossed == 0


def test_labels_are_large_enough_to_read_or_absent(page):
    go(page, STATES["layout on 512 devices"])
    assert page.locator(".tile").count() == 1024
    assert page.locator(".tile text").count() == 0
    go(page, STATES["layout"])
    assert page.locator(".tile text").count() == 16


def test_one_token_is_not_called_tokens(page):
    go(page, "#v1/transformer?data=1&fsdp=1&tensor=1&sequence=1&batch=1&length=1")
    assert "1 token in a step" in shown(page, ".sentence")
    assert "1 tokens" not in shown(page, ".part")


def test_each_part_leads_to_its_notebook(page):
    lessons = page.evaluate(
        "Object.entries(page.LESSONS).map(([part, [lesson]]) => [part, lesson])"
    )
    assert [part for part, _ in lessons] == page.evaluate("Object.keys(page.parts)")
    for part, lesson in lessons:
        assert (ROOT / "solutions" / lesson / f"{lesson}.md").exists()
        go(page, f"#v1/{part}")
        link = page.locator(".lesson a").get_attribute("href")
        assert link == f"course/{lesson}/{lesson}.html"


def test_the_table_says_what_the_picture_shows(page):
    page.get_by_text("The same as a table").click()
    rows = page.locator("tbody tr")
    assert rows.count() == 8
    assert rows.nth(3).inner_text().split("\t") == [
        "3",
        "0",
        "3",
        "x[6:8, 0:8]",
        "(2, 8)",
        "64 bytes",
    ]


def test_the_front_page_moves_until_it_is_paused(opened, playground_file):
    from website.playground import render_playground

    front = playground_file.with_name("front.html")
    front.write_text(render_playground(STATIC.as_uri(), "hero"))
    opened.emulate_media(reduced_motion="no-preference")
    opened.goto(front.as_uri())
    assert "arrows show what device 0 receives" in shown(opened, ".legend")
    first = shown(opened, ".sentence")
    changed = "(text) => document.querySelector('.sentence').innerText !== text"
    opened.wait_for_function(changed, arg=first)
    opened.get_by_role("button", name="Pause").click()
    assert opened.get_by_role("button", name="Play").is_visible()
    assert "playground.html#v1/reshard" in opened.get_by_role("link").get_attribute("href")
    opened.emulate_media(reduced_motion="reduce")
    opened.goto(front.as_uri())
    assert opened.get_by_role("button", name="Play").is_visible()


TYPED = {
    "Mesh": ("#v1/layout?shape=8,16&mesh=x:2,y:4&spec=y,x", "x:2, y:"),
    "Shape": ("#v1/layout?shape=8,16&mesh=x:2,y:4&spec=y,x", "8,-"),
    "Partition spec": ("#v1/layout?shape=8,16&mesh=x:2,y:4&spec=y,x", 'P("y", "'),
    "Devices, if not in order": ("#v1/layout?shape=8&mesh=x:2&devices=1,0&spec=x", "1,"),
    "Spec before": ("#v1/reshard", 'P("z")'),
    "Spec after": ("#v1/reshard", 'P(unreduced={"x"})'),
    "Spec of B[j, k]": ("#v1/matmul", 'P("x", "x")'),
}
"""A field, where it is, and what stands in it while somebody types."""


@pytest.mark.parametrize("label", some_of([*TYPED], 4))
def test_the_last_result_stays_while_a_field_is_half_typed(page, label):
    fragment, text = TYPED[label]
    go(page, fragment)
    field = page.get_by_label(label, exact=True)
    before, valid = shown(page, ".shown"), field.input_value()
    field.fill(text)
    assert shown(page, ".shown") == before
    assert page.get_by_text("this is the result from before").is_visible()
    assert page.locator(".shown").evaluate("(e) => e.inert && getComputedStyle(e).opacity") == "0.5"
    field.fill(valid)
    assert shown(page, ".shown") == before
    assert not page.get_by_text("this is the result from before").is_visible()
    assert page.locator("[inert]").count() == 0


@pytest.mark.parametrize("label", some_of([*TYPED], 4))
def test_the_field_that_is_refused_says_so(page, label):
    fragment, text = TYPED[label]
    go(page, fragment)
    page.get_by_label(label, exact=True).fill(text)
    (field,) = page.locator("[aria-invalid=true]").all()
    assert field.input_value() == text
    described = field.get_attribute("aria-describedby").split()
    assert page.locator(f"#{described[0]}").inner_text() == shown(page, ".results .refusal")
    assert len(described) == len(set(described)) > 0


def test_the_slider_that_is_refused_says_so(page):
    go(page, "#v1/transformer")
    slider = page.get_by_label("Tensor", exact=True)
    slider.fill("9")
    assert slider.get_attribute("aria-invalid") == "true"
    (refusal, _) = slider.get_attribute("aria-describedby").split()
    assert page.locator(f"#{refusal}").inner_text() == shown(page, ".results .refusal")
    slider.fill("2")
    assert page.locator("[aria-invalid=true]").count() == 0


def test_axe_finds_nothing_in_a_result_from_before(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.get_by_label("Mesh", exact=True).fill("x:2, y:")
    page.wait_for_timeout(200)
    assert not axe.run(page).response["violations"]


def test_a_page_that_opens_with_a_refusal_shows_no_result_from_before(page):
    go(page, STATES["refusal"])
    assert shown(page, ".shown") == ""
    go(page, '#v1/layout?spec=P("x"')
    assert not page.locator(".board").is_visible()
    assert not page.get_by_text("this is the result from before").is_visible()
