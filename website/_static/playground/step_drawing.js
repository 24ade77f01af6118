"use strict";

/** Pictures of what moves in one step: each device at its place, with the part of the array it holds. */
const stepDrawing = (() => {
  const {svg, picture, deviceColour} = drawing;
  const MAX_MOVING = 1500;
  const MANY = 64;
  const GAP = 10;
  const LABEL = 15;
  const MIN_SIDE = 3;

  /**
   * Draw all devices after a step.
   *
   * A piece has the colour of the device that it came from, or of the first one that holds a copy of it, and a sum is
   * striped. Each device is a small picture of the whole array, in which what it holds is filled.
   *
   * @param {layouts.Layout} layout  After the step.
   * @param {?reshards.Step} step  Null before the first one.
   * @param {{width: number, chosen: number, planes: number}} options  `chosen` is a place in the mesh;
   *     `planes` is how many slices along dimension 0 a 3-D array is drawn as.
   */
  function drawDevices(layout, step, {width, chosen, planes = 1}) {
    const {mesh} = layout;
    const sizes = mesh.axes.map((axis) => axis.size);
    const columns = sizes.at(-1) ?? 1;
    const rows = layout.placements.length / columns;
    const cell = cellSize(layout.shape, columns, rows, width, planes);
    const small = cell.width < 26;
    const left = mesh.axes.length > 1 ? 64 : 8;
    const places = layout.placements.map((_, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      const blocks = sizes.length > 2 ? Math.floor(row / sizes.at(-2)) : 0;
      return [left + column * (cell.width + (small ? 2 : GAP)), 26 + row * (cell.height + (small ? 2 : GAP + LABEL)) + blocks * 12];
    });
    const [right, bottom] = places.at(-1);
    const pieces = piecesOf(layout, step, chosen);
    const colours = coloursOf(step ? step.from : layout);
    const devices = layout.placements.map(({device}, i) => {
      const [x, y] = places[i];
      return svg("g", {class: i === chosen ? "device chosen" : "device", "data-devices": device, transform: `translate(${x} ${y})`},
        svg("rect", {class: "whole", width: cell.width, height: cell.height}),
        small ? "" : svg("text", {class: "muted", x: cell.width / 2, y: cell.height + 14}, `${device}${layout.spec.unreduced.length ? " Σ" : ""}`));
    });
    const filled = pieces.map(({target, source, block, stripe}) => {
      const dx = places[source][0] - places[target][0];
      const dy = places[source][1] - places[target][1];
      const moves = source !== target && step !== null;
      return svg("g", {transform: `translate(${places[target].join(" ")})`},
        svg("g", {class: moves ? "piece moving" : "piece", style: moves ? `--from:translate(${dx}px, ${dy}px)` : undefined},
          rectanglesOf(block, layout.shape, cell, planes).map((box) =>
            svg("rect", {...visible(striped(box, stripe), cell), fill: colours[source]}))));
    });
    const arrows = step && chosen !== null ? arrowsTo(chosen, step, places, cell) : "";
    const size = [right + cell.width + 8, bottom + cell.height + LABEL + 4];
    return picture(...size, describe(layout, step), axesOf(mesh, places, cell, columns, left), devices,
      svg("g", {class: `pieces${pieces.length > MAX_MOVING ? " still" : ""}${small ? " small" : ""}`}, filled),
      svg("rect", {class: "chosen-frame", x: places[chosen][0] - 2, y: places[chosen][1] - 2, width: cell.width + 4, height: cell.height + 4}), arrows);
  }

  /** Return the colour of what each device holds: that of the first device with the same data. */
  function coloursOf({mesh, spec, placements}) {
    const summed = mesh.axes.flatMap(({name}, d) => (spec.unreduced.includes(name) ? [d] : []));
    const first = new Map();
    return placements.map(({device, index, place}) => {
      const key = `${index.join()} ${summed.map((d) => place[d]).join()}`;
      if (!first.has(key)) first.set(key, deviceColour(device));
      return first.get(key);
    });
  }

  function describe(layout, step) {
    const now = layouts.describe(layout);
    return step ? `After the ${step.kind}: ${now}.` : `At first: ${now}.`;
  }

  /** Return the size of a device's picture: the array to scale, as large as there is room. */
  function cellSize(shape, columns, rows, width, planes) {
    const [long, short] = [(shape.at(-1) || 1) * planes, shape.length > 1 ? shape.at(-2) || 1 : 0];
    const ratio = short ? Math.min(Math.max(short / long, 0.4), 1.6) : 0.3;
    const across = Math.max(7, Math.min(96, (width - 80) / columns - GAP, 620 / rows / ratio - GAP));
    return {width: across, height: across * ratio};
  }

  /**
   * Return what each device holds, in pieces by the device that they came from.
   *
   * Where there are many devices, only the chosen one's block is in pieces.
   */
  function piecesOf(layout, step, chosen) {
    const isMany = layout.placements.length > MANY;
    if (isMany && step) {
      const whole = piecesOf(layout, null).filter(({target}) => target !== chosen);
      return [...whole, ...piecesInto(layout, step, [chosen])];
    }
    if (!step) return layout.placements.map(({block}, i) => ({target: i, source: i, block}));
    return piecesInto(layout, step, layout.placements.keys());
  }

  function piecesInto(layout, step, targets) {
    const sources = reshards.sourcesOf(step);
    if (isSum(step))
      return [...targets].flatMap((i) => [i, ...sources[i]].sort((a, b) => a - b).map((source, number, all) =>
        ({target: i, source, block: layout.placements[i].block, stripe: {number, of: all.length}})));
    return [...targets].flatMap((i) =>
      [i, ...sources[i]].flatMap((j) => {
        const {block} = layout.placements[i];
        const part = intersection(step.from.placements[j].block, block);
        return part && (j === i || !isPermutation(step) || sources[i].includes(j)) ? [{target: i, source: j, block: part}] : [];
      }).filter(({source}) => !(isPermutation(step) && sources[i].length && source === i)));
  }

  const isSum = (step) => step.kind === "all-reduce" || step.kind === "reduce-scatter";

  /** Return a stripe of a box: a sum has the colours of all devices whose partial sums are in it. */
  function striped(box, stripe) {
    if (!stripe) return box;
    const width = box.width / stripe.of;
    return {...box, x: box.x + stripe.number * width, width};
  }

  /** Return a box that is large enough to be seen, still inside its device's picture. */
  function visible({x, y, width, height}, cell) {
    const [w, h] = [Math.max(width, Math.min(MIN_SIDE, cell.width)), Math.max(height, Math.min(MIN_SIDE, cell.height))];
    return {x: Math.min(x, cell.width - w), y: Math.min(y, cell.height - h), width: w, height: h};
  }

  const isPermutation = (step) => step.kind === "collective-permute";

  function intersection(a, b) {
    const both = a.map(([first, end], d) => [Math.max(first, b[d][0]), Math.min(end, b[d][1])]);
    return both.every(([first, end]) => first < end) ? both : null;
  }

  /** Return the rectangles of a block in a device's picture; in 3-D, one for each plane it touches. */
  function rectanglesOf(block, shape, cell, planes) {
    const [row, column] = [block.at(-2) ?? [0, 1], block.at(-1) ?? [0, 1]];
    const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
    const across = cell.width / planes;
    const touched = shape.length < 3 ? [0] : Array.from({length: planes}, (_, p) => p)
      .filter((p) => block[0][0] < (p + 1) * shape[0] / planes && p * shape[0] / planes < block[0][1]);
    return touched.map((p) => ({
      x: p * across + column[0] / columns * across, width: (column[1] - column[0]) / columns * across,
      y: row[0] / rows * cell.height, height: (row[1] - row[0]) / rows * cell.height,
    }));
  }

  /** Draw arrows to the chosen device from each that sends to it. */
  function arrowsTo(chosen, step, places, cell) {
    const centre = (i) => [places[i][0] + cell.width / 2, places[i][1] + cell.height / 2];
    const [x, y] = centre(chosen);
    return svg("g", {class: "arrows"}, reshards.sourcesOf(step)[chosen].map((j) => {
      const [u, v] = centre(j);
      const length = Math.hypot(x - u, y - v);
      const bow = Math.min(0.25 * length, 24);
      const [cx, cy] = [(x + u) / 2 + bow * (y - v) / length, (y + v) / 2 - bow * (x - u) / length];
      const reach = Math.hypot(x - cx, y - cy);
      const [ex, ey] = [(x - cx) / reach, (y - cy) / reach];
      const [a, b] = [x - ex * 6, y - ey * 6];
      return svg("g", {}, svg("path", {d: `M${u},${v}Q${cx},${cy} ${a},${b}`}),
        svg("path", {class: "head", d: `M${x},${y}l${-9 * ex - 4 * ey},${-9 * ey + 4 * ex}l${8 * ey},${-8 * ex}z`}));
    }));
  }

  function axesOf(mesh, places, cell, columns, left) {
    const axes = mesh.axes.map(({name, size}) => `${name}: ${size}`);
    const right = places[columns - 1][0] + cell.width;
    const bottom = places.at(-1)[1] + cell.height;
    return svg("g", {},
      axes.length ? svg("text", {class: "axis", x: (left + right) / 2, y: 12}, axes.at(-1)) : "",
      axes.length ? svg("path", {class: "bracket", d: `M${left},21v-4H${right}v4`}) : "",
      axes.length > 1 ? svg("path", {class: "bracket", d: `M${left - 5},26h-4V${bottom}h4`}) : "",
      axes.slice(0, -1).map((text, d) => svg("text", {class: "axis end", x: left - 14, y: (26 + bottom) / 2 + 4 + 15 * (d - (axes.length - 2) / 2)}, text)));
  }

  return {drawDevices};
})();
