"use strict";

/** The first part: which block of an array each device of a mesh holds. */
const layoutPart = (() => {
  const {html} = drawing;

  const defaults = {shape: "8,16", mesh: "x:2,y:4", devices: "", spec: "y,x", dtype: "float32", device: "0"};

  /** Read the fields; every problem is a `layouts.Refusal`. */
  function read(fields) {
    return {...readArray(fields), spec: layouts.reading("spec", () => layouts.parseSpec(fields.spec))};
  }

  /** Read the fields of an array's shape and of its mesh. */
  function readArray(fields) {
    const shape = layouts.reading("shape", () => layouts.parseShape(fields.shape));
    layouts.reading("mesh", () => layouts.parseMesh(fields.mesh));
    const mesh = layouts.reading("devices", () => layouts.parseMesh(fields.mesh, fields.devices));
    return {shape, mesh};
  }

  /** Build the part in an element; `save` is called with its fields after each change. */
  function build(host, fields, save) {
    const change = (name) => (text) => { fields[name] = text; draw(); save(); };
    const shape = controls.textField("Shape", {value: fields.shape, hint: "sizes, such as 8, 16", changed: change("shape")});
    const mesh = controls.textField("Mesh", {value: fields.mesh, hint: "axes and sizes, such as x:2, y:4", changed: change("mesh")});
    const spec = controls.textField("Partition spec", {value: asCode(fields.spec), hint: 'an entry for each dimension: P("x", None), P(("y", "x"))', changed: change("spec")});
    const devices = controls.textField("Devices, if not in order", {value: fields.devices, hint: "ids along the mesh, the last axis fastest: 7-0, or 0, 4, 1, 5. On TPUs, jax.make_mesh may order them by their links", changed: change("devices")});
    const dtype = controls.choice("Type", {value: fields.dtype, options: Object.keys(layouts.ITEM_BYTES).map((name) => [name, name]), changed: change("dtype")});
    const board = controls.axesBoard("Which axis shards which dimension", (entries) => {
      const {spec: before} = read(fields);
      while (entries.length && entries.at(-1).length === 0 && entries.length > before.entries.length) entries.pop();
      fields.spec = layouts.specAsLink(withEntries(before, entries));
      spec.input.value = asCode(fields.spec);
      draw();
      save();
    });
    const sentence = html("p", {class: "sentence", "aria-live": "polite"});
    const pictures = html("div", {class: "pictures pointing"});
    const chosen = html("div", {class: "pointed"});
    const rest = html("div");
    const inputs = {shape: shape.input, mesh: mesh.input, spec: spec.input, devices: devices.input};
    const results = controls.results(inputs, sentence, pictures, chosen, rest);
    host.append(
      html("div", {class: "controls"}, shape.row, mesh.row, spec.row, board.board, dtype.row,
        html("details", {open: fields.devices !== ""}, html("summary", {}, "Other devices, or in another order"), devices.row)),
      results.element);

    function draw() {
      let isReadable = false;
      const layout = results.attempt(() => {
        const {shape, mesh, spec} = read(fields);
        board.show(shape, mesh, knownPart(shape, mesh, spec));
        isReadable = true;
        return layouts.reading("spec", () => layouts.layoutOf(shape, mesh, spec));
      });
      board.board.inert = !isReadable;
      if (!layout) return;
      sentence.textContent = `${layouts.specAsCode(layout.spec)}: ${layouts.describe(layout)}.${remark(layout)}`;
      const width = pictures.clientWidth || 600;
      pictures.replaceChildren(
        html("figure", {}, html("figcaption", {}, "The mesh"), drawing.drawMesh(layout.mesh, width)),
        html("figure", {}, html("figcaption", {}, "The array, and who holds its blocks"),
          layouts.product(layout.shape) ? drawing.drawArray(layout, width) : html("p", {}, "It has no elements, so there is nothing to draw. JAX allows that."),
          html("p", {class: "legend"}, legend(layout))));
      drawDevice(layout);
      rest.replaceChildren(controls.codeBlock(layouts.layoutAsCode(layout, fields.dtype)),
        controls.foldedTable("The same as a table", ["Device", ...layout.mesh.axes.map((axis) => axis.name), "Block", "Shape", "Bytes"],
          layout.placements.map(({device, place, block}) => [String(device), ...place.map(String), `x${layouts.blockAsCode(block)}`,
            words.tuple(layout.blockShape), words.bytes(layouts.blockBytes(layout, fields.dtype))])));
    }

    /** Show one device's block, and let the reader point at another. */
    function drawDevice(layout) {
      const {placements} = layout;
      const from = Math.max(0, placements.findIndex((p) => String(p.device) === fields.device));
      const said = html("p", {"aria-live": "polite"});
      const slider = controls.slider("Device", {min: 0, max: placements.length - 1, value: from,
        inWords: (i) => String(placements[i].device), changed: (i) => { point(i); save(); }});
      const point = (i) => {
        fields.device = String(placements[i].device);
        const {block, place} = placements[i];
        const {copies, sums} = layouts.sharersOf(layout, placements[i]);
        const at = layout.mesh.axes.map((axis, d) => `${axis.name} = ${place[d]}`).join(", ");
        said.replaceChildren(html("strong", {}, `Device ${fields.device}`), at ? `, at ${at}, holds ` : " holds ", sums.length ? "a partial sum of " : "",
          html("code", {}, `x${layouts.blockAsCode(block)}`),
          `: shape ${words.tuple(layout.blockShape)}, ${words.bytes(layouts.blockBytes(layout, fields.dtype))}. `,
          copies.length ? `So ${copies.length === 1 ? "does" : "do"} ${words.manyDevices(copies)}.` : sums.length ? "" : "No other device does.",
          sums.length ? ` The other partial sums of it are on ${words.manyDevices(sums)}.` : "");
        highlight(pictures, placements[i].device, new Set([placements[i].device, ...copies, ...sums]));
      };
      pictures.onpointerover = (event) => {
        const ids = event.target.closest?.("[data-devices]")?.dataset.devices.split(" ").map(Number);
        if (!ids || ids.includes(Number(fields.device))) return;
        slider.input.value = placements.findIndex((p) => p.device === ids[0]);
        slider.show();
        point(Number(slider.input.value));
      };
      pictures.onpointerleave = save;
      chosen.replaceChildren(slider.row, said);
      point(from);
    }

    draw();
    return {draw};
  }

  /** Light up a device and its block. */
  function highlight(pictures, device, holders) {
    for (const tile of pictures.querySelectorAll(".tile")) {
      const ids = tile.dataset.devices.split(" ").map(Number);
      tile.classList.toggle("lit", ids.some((id) => holders.has(id)));
      tile.classList.toggle("chosen", ids.includes(device));
    }
  }

  /** Return a spec with other entries; an axis that now shards a dimension is no longer unreduced. */
  function withEntries({unreduced}, entries) {
    return {entries, unreduced: unreduced.filter((name) => !entries.flat().includes(name))};
  }

  /** Return the part of a spec that a board can show, even if JAX refuses the whole. */
  function knownPart(shape, mesh, spec) {
    const seen = new Set();
    const known = (name) => mesh.axes.some((axis) => axis.name === name) && !seen.has(name) && seen.add(name);
    return {entries: spec.entries.slice(0, shape.length).map((axes) => axes.filter(known)), unreduced: spec.unreduced};
  }

  /** Return what the colours and outlines mean. */
  function legend(layout) {
    const {mesh, placements, counts} = layout;
    const isShared = placements.length > layouts.product(counts);
    const isSum = layouts.partialSums(layout) > 1;
    const part = isSum ? "partial sums of it" : "it, too";
    return (isSum ? "Σ: each of these devices holds a partial sum of the block." : isShared ? "A grey block is held by several devices." : "A block has the colour of the device that holds it.") +
      (mesh.devices.length > course.tints.length ? ` There are ${course.tints.length} colours, so devices with the same colour need not hold the same block.` : "") +
      ` Bright: the device that you point at and its block${isShared ? `, and the devices that hold ${part}` : ""}.`;
  }

  function remark(layout) {
    if (layout.spec.unreduced.length)
      return ` It is unreduced over ${words.list(layout.spec.unreduced)}: the partial sums of a block are on different devices, and its values are their sum.`;
    return "";
  }

  const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  /** Return a spec as code, or as it was typed if it is none. */
  function asCode(text) {
    try {
      return layouts.specAsCode(layouts.parseSpec(text));
    } catch {
      return text;
    }
  }

  /** Return the fields as a link holds them: a spec in its short form. */
  function toLink(fields) {
    return {...fields, spec: shortSpec(fields.spec)};
  }

  function shortSpec(text) {
    try {
      return layouts.specAsLink(layouts.parseSpec(text));
    } catch {
      return text;
    }
  }

  return {title: "Layout", defaults, build, toLink, read, readArray, asCode, shortSpec, highlight, capitalised, knownPart, withEntries};
})();
