"use strict";

/** Pictures of meshes and arrays, and the helper that makes elements. Nothing here computes. */
const drawing = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SHARED = "#f3f3f3";
  const MIN_TYPE = 8;
  const MIN_LINED = 5;
  const MARGIN = {left: 56, top: 30, right: 34, bottom: 22};

  /** Make an HTML element: `html("p", {class: "note"}, "text", child)`. */
  const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

  /** Make an SVG element. */
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  function fill(element, attributes = {}, children = []) {
    for (const [name, value] of Object.entries(attributes))
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== undefined) element.setAttribute(name, value);
    element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== ""));
    return element;
  }

  const deviceColour = (device) => course.tints[device % course.tints.length];

  /** Return a colour mixed with white. */
  function paler(colour) {
    const mixed = [1, 3, 5].map((at) => Math.round(0.4 * parseInt(colour.slice(at, at + 2), 16) + 0.6 * 255));
    return `rgb(${mixed.join(", ")})`;
  }

  /** Return a picture with a text alternative. */
  function picture(width, height, description, ...children) {
    return svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": description}, children);
  }

  /** Return the size of type at which a label fits into its tile, in pixels. */
  const labelSize = ({width, height, label}) => Math.min(13, height * 0.7, (width - 2) / (0.58 * Math.max(label.length, 1)));

  /** Return a tile: a filled box with a label, if there is room for it at that size of type. */
  function tile({x, y, width, height, fill, label, data = {}}, size) {
    return svg("g", {class: Math.min(width, height) < MIN_LINED ? "tile small" : "tile", ...data},
      svg("rect", {x, y, width, height, style: `--tint:${fill};--pale:${paler(fill)}`}),
      size < MIN_TYPE || width < 10 ? "" : svg("text", {x: x + width / 2, y: y + height / 2 + size * 0.35, style: `font-size:${size}px`}, label));
  }

  /** Return the ids in a block's label, shortened if there are many. */
  function label(ids, room) {
    const whole = ids.join(", ");
    if (whole.length * 6.5 <= room || ids.length === 1) return whole;
    const run = ids.every((id, i) => id === ids[0] + i);
    return run ? `${ids[0]}–${ids.at(-1)}` : `${ids.length} devices`;
  }

  /**
   * Draw planes of tiles: the last two dimensions of a grid are a plane's rows and columns.
   *
   * @param {{counts: number[], sides: number[], tileAt: function, edges: string[][], description: string,
   *     ticks: ?number[][]}} grid  `sides` are a plane's width and height in pixels; `tileAt(index)` returns a
   *     tile's fill, label and data; an edge is a dimension's name and the axes along it.
   */
  function planes({counts, sides, tileAt, edges, ticks, description, width}) {
    const rank = counts.length;
    const [rows, columns] = [counts[rank - 2] ?? 1, counts[rank - 1] ?? 1];
    const outer = counts.slice(0, Math.max(0, rank - 2));
    const outerIndices = indicesOf(outer);
    const [across, height] = sides;
    const box = {width: across + MARGIN.left + MARGIN.right, height: height + MARGIN.top + MARGIN.bottom + (outer.length ? 16 : 0)};
    const perRow = Math.max(1, Math.min(outerIndices.length, Math.floor(width / box.width)));
    const tilesIn = outerIndices.map((place) => indicesOf([rows, columns]).map(([row, column]) => {
      const index = [...place, ...(rank > 1 ? [row] : []), ...(rank > 0 ? [column] : [])];
      const size = {width: across / columns, height: height / rows};
      return {x: column * size.width, y: row * size.height, ...size, ...tileAt(index, size)};
    }));
    const type = Math.min(...tilesIn.flat().map(labelSize)); // the same in all planes
    const children = outerIndices.map((place, number) => {
      const [left, top] = [(number % perRow) * box.width, Math.floor(number / perRow) * box.height];
      const name = outer.length ? `${place.map((i, d) => nameOf(edges[d], i, ticks?.[d])).join(", ")}` : "";
      return svg("g", {transform: `translate(${left + MARGIN.left} ${top + MARGIN.top})`},
        tilesIn[number].map((box) => tile(box, type)), svg("rect", {class: "outline", width: across, height}),
        rank > 0 ? columnEdge(edges[rank - 1], across) : "",
        rank > 1 ? rowEdge(edges[rank - 2], height) : "",
        ticks && rank > 0 ? tickTexts(ticks[rank - 1], sides, true) : "",
        ticks && rank > 1 ? tickTexts(ticks[rank - 2], sides, false) : "",
        name ? svg("text", {class: "muted", x: across / 2, y: height + MARGIN.bottom + 8}, name) : "");
    });
    const down = Math.ceil(outerIndices.length / perRow);
    return picture(perRow * box.width, down * box.height, description, children);
  }

  function nameOf(edge, i, ticks) {
    return ticks ? `${edge[0]} at ${ticks[i]}:${ticks[i + 1]}` : `${edge[0]} ${i}`;
  }

  function columnEdge([note, axes], across) {
    return svg("g", {}, axes ? svg("path", {class: "bracket", d: `M0,-4v-4H${across}v4`}) : "",
      svg("text", {x: across / 2, y: -14, class: "muted"}, note, axes ? svg("tspan", {class: "axis"}, ` ${axes}`) : ""));
  }

  function rowEdge([note, axes], height) {
    return svg("g", {}, axes ? svg("path", {class: "bracket", d: `M-4,0h-4V${height}h4`}) : "",
      svg("text", {x: -12, y: height / 2 - (axes ? 4 : -4), class: "muted end"}, note),
      axes ? svg("text", {x: -12, y: height / 2 + 11, class: "axis end"}, axes) : "");
  }

  /** Return the indices at which blocks begin, below or to the right, if there is room for them. */
  function tickTexts(ticks, [across, height], along) {
    const space = (along ? across : height) / (ticks.length - 1);
    const needed = along ? String(ticks.at(-1)).length * 7 + 6 : 12;
    if (space < needed) return "";
    return svg("g", {class: "ticks"}, ticks.map((tick, i) => along
      ? svg("text", {x: i * space, y: height + 16}, String(tick))
      : svg("text", {x: across + 5, y: i * space + 4, class: "start"}, String(tick))));
  }

  /** Return all indices of a grid, the last dimension fastest. */
  function indicesOf(counts) {
    return counts.reduce((found, count) => found.flatMap((index) => Array.from({length: count}, (_, i) => [...index, i])), [[]]);
  }

  /** Draw a mesh: each device at its place. */
  function drawMesh(mesh, width) {
    const counts = mesh.axes.map((axis) => axis.size);
    const [rows, columns] = [counts.at(-2) ?? 1, counts.at(-1) ?? 1];
    const planesAcross = Math.min(4, layouts.product(counts.slice(0, -2)));
    const room = Math.max(90, Math.min(width, planesAcross > 1 ? 1200 : 560) / planesAcross - MARGIN.left - MARGIN.right);
    const [across, down] = [Math.min(42, room / columns), Math.min(42, 340 / rows)];
    const side = Math.min(across, down);
    const cell = side < 9 ? [Math.min(across, 20), Math.min(down, 20)] : [side, side]; // no squares if too many are in a row
    const sides = [columns * cell[0], rows * cell[1]];
    const strides = counts.map((_, d) => layouts.product(counts.slice(d + 1)));
    return planes({
      counts, sides, width,
      edges: mesh.axes.map(({name, size}) => ["", `${name}: ${size}`]).map(([note, axes], d) =>
        d < counts.length - 2 ? [mesh.axes[d].name, ""] : [note, axes]),
      tileAt: (index) => {
        const device = mesh.devices[index.reduce((sum, i, d) => sum + i * strides[d], 0)];
        return {fill: deviceColour(device), label: String(device), data: {"data-devices": device}};
      },
      description: `The mesh: ${mesh.axes.map(({name, size}) => `${name} of size ${size}`).join(", ") || "no axes"}, with ${words.devices(mesh.devices)}.`,
    });
  }

  /** Draw an array: each block with the devices that hold it. */
  function drawArray(layout, width) {
    const {shape, counts, spec} = layout;
    const holders = layouts.holdersOf(layout);
    const planesAcross = counts.length > 2 ? Math.min(counts[0], 4) : 1;
    const room = Math.max(90, Math.min(width, 600) / planesAcross - MARGIN.left - MARGIN.right);
    const strides = counts.map((count, d) => shape[d] / count);
    return planes({
      counts, sides: sidesOf(shape, room), width,
      edges: shape.map((_, d) => [`dim ${d}`, (spec.entries[d] ?? []).join(", ")]),
      ticks: counts.map((count, d) => Array.from({length: count + 1}, (_, i) => i * strides[d])),
      tileAt: (index, size) => {
        const ids = holders.get(index.join());
        const fill = ids.length === 1 ? deviceColour(ids[0]) : SHARED;
        const sums = layouts.partialSums(layout) > 1 ? "Σ " : "";
        return {fill, label: `${sums}${label(ids, size.width)}`, data: {"data-devices": ids.join(" ")}};
      },
      description: `The array: ${layouts.describe(layout)}.`,
    });
  }

  /** Return the width and height in pixels of an array's last two dimensions: nearly to scale. */
  function sidesOf(shape, room) {
    if (shape.length < 2) return [shape.length ? room : 60, 48];
    const [rows, columns] = [Math.max(1, shape.at(-2)), Math.max(1, shape.at(-1))];
    const ratio = Math.min(Math.max(rows / columns, 0.3), 2);
    const across = Math.min(room, 260 / ratio, 340);
    return [across, across * ratio];
  }

  return {html, svg, picture, deviceColour, drawMesh, drawArray};
})();
