"use strict";

/**
 * Layouts: which block of an array each device holds, by JAX's rules.
 *
 * In: texts such as `8, 4`, `x:2, y:4` and `P("x", None)`. Out: plain objects, or a `Refusal` whose
 * message is the rule that was broken. Tests compare all of it with JAX and with
 * `shardlings/layouts/`, whose sentences these are.
 *
 * @typedef {{name: string, size: number}} Axis
 * @typedef {{axes: Axis[], devices: number[]}} Mesh  The devices' ids, in row-major order.
 * @typedef {{entries: string[][], unreduced: string[]}} Spec
 *     For each dimension that it covers, the mesh axes it is sharded over, the slowest first.
 * @typedef {[number, number][]} Block  For each dimension, the first index and the one past the last.
 * @typedef {{device: number, place: number[], index: number[], block: Block}} Placement
 *     A device's id, its place in the mesh, and its block: by index in the grid, and in elements.
 * @typedef {{shape: number[], mesh: Mesh, spec: Spec, counts: number[], blockShape: number[],
 *     placements: Placement[]}} Layout
 */
const layouts = (() => {
  const MAX_DEVICES = 512;
  const MAX_RANK = 3;
  const MAX_AXES = 4;
  const ITEM_BYTES = {float32: 4, bfloat16: 2, float16: 2, float64: 8, int32: 4, int8: 1};

  /** An error whose message is for the reader. `field` names the field that it is about, if that is known. */
  class Refusal extends Error {}

  /** Return what `read` returns; a refusal of it is about a field. */
  function reading(field, read) {
    try {
      return read();
    } catch (error) {
      if (error instanceof Refusal) error.field ??= field;
      throw error;
    }
  }

  const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

  /** Read a shape such as `8, 4` or `(8,)`. */
  function parseShape(text) {
    const inside = text.trim().replace(/^\((.*)\)$/s, "$1").trim();
    const parts = inside === "" ? [] : inside.replace(/,\s*$/, "").split(/\s*[,×]\s*|\s*\bx\b\s*|(?<=\d)x(?=\d)/);
    const shape = parts.map((part) => {
      if (!/^\d[\d_]*$/.test(part))
        throw new Refusal(`A shape is whole numbers with commas between them, such as 8, 4; ${quoted(part)} is not one.`);
      return Number(part.replaceAll("_", ""));
    });
    if (shape.length > MAX_RANK)
      throw new Refusal(`This page draws arrays of up to ${MAX_RANK} dimensions; ${words.tuple(shape)} has ${shape.length}.`);
    if (product(shape) > Number.MAX_SAFE_INTEGER)
      throw new Refusal("This array has more elements than this page can count.");
    return shape;
  }

  /** Read a mesh such as `x:2, y:4`, and the ids of its devices, such as `0-3, 7, 6, 5, 4`. */
  function parseMesh(text, ids = "") {
    const inside = text.trim().replace(/^Mesh\((.*)\)$/s, "$1");
    const axes = inside.trim() === "" ? [] : inside.trim().replace(/,$/, "").split(",").map((part) => parseAxis(part, text));
    const names = axes.map((axis) => axis.name);
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined) throw new Refusal(`Two axes of the mesh are called ${quoted(twice)}; each needs a name of its own.`);
    if (axes.length > MAX_AXES) throw new Refusal(`This page draws meshes of up to ${MAX_AXES} axes; this one has ${axes.length}.`);
    const empty = axes.find((axis) => axis.size === 0);
    if (empty) throw new Refusal(`The axis ${quoted(empty.name)} has size 0. Each axis of a mesh needs at least one device.`);
    const count = product(axes.map((axis) => axis.size));
    if (count > MAX_DEVICES)
      throw new Refusal(
        `This mesh needs ${axes.length > 1 ? `${axes.map((a) => a.size).join(" × ")} = ` : ""}` +
        `${count.toLocaleString("en-US")} devices. JAX makes a mesh only of devices that the machine has; ` +
        `this page draws up to ${MAX_DEVICES}.`);
    return {axes, devices: parseDevices(ids, count)};
  }

  function parseAxis(text, whole) {
    const match = /^\s*['"]?([A-Za-z_]\w*)['"]?\s*[:=]\s*(\d+)\s*$/.exec(text);
    if (match) return {name: match[1], size: Number(match[2])};
    const guess = guessMesh(whole);
    throw new Refusal(`A mesh is names and sizes, such as x:2, y:4; ${quoted(text.trim())} is not a name, a colon and a size.` +
      (guess && ` Did you mean ${guess}?`));
  }

  /** Return the mesh that somebody means by `2x4`, `(2, 4)` or `make_mesh((2, 4), ("x", "y"))`, or nothing. */
  function guessMesh(text) {
    const inside = text.replace(/(?:jax\.)?(?:make_mesh|Mesh)\b/, "").replace(/(?<=\d)\s*[x*×]\s*(?=\d)/g, ",");
    if (/[^\w\s,;:=(){}[\]'"]/.test(inside)) return "";
    const sizes = inside.match(/(?<!\w)\d+/g) ?? [];
    const names = inside.match(/[A-Za-z_]\w*/g) ?? ["x", "y", "z", "w"].slice(0, sizes.length);
    if (sizes.length === 0 || sizes.length !== names.length) return "";
    return sizes.map((size, d) => `${names[d]}:${size}`).join(", ");
  }

  function parseDevices(text, count) {
    if (text.trim() === "") return Array.from({length: count}, (_, i) => i);
    const ids = text.trim().replace(/,$/, "").split(/[\s,]+/).flatMap((part) => {
      const match = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part);
      if (!match) throw new Refusal(`Devices are given by their ids, such as 0-3, 6, 7; ${quoted(part)} is not one.`);
      const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
      const step = first <= last ? 1 : -1;
      return Array.from({length: Math.min(Math.abs(last - first) + 1, MAX_DEVICES + 1)}, (_, i) => first + step * i);
    });
    const twice = ids.find((id, i) => ids.indexOf(id) < i);
    if (twice !== undefined) throw new Refusal(`Device ${twice} is in the mesh twice.`);
    if (ids.length !== count)
      throw new Refusal(`The mesh has ${count} place${count === 1 ? "" : "s"}, and ${ids.length} device${ids.length === 1 ? " is" : "s are"} given for ${count === 1 ? "it" : "them"}.`);
    return ids;
  }

  const TOKEN = /\s*(?:(["'])(.*?)\1|([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|([(){},=-]))/y;

  /**
   * Read a partition spec: `P("x", None)`, `P(("y", "x"))`, or as in links, `x,-` and `y.x`.
   *
   * As in Python, `("x")` is `"x"`, and `P("x",)` has one entry.
   */
  function parseSpec(text) {
    const tokens = [];
    TOKEN.lastIndex = 0;
    const source = text.trim().replace(/^(?:jax\.(?:sharding\.)?)?(?:PartitionSpec|P)\s*\((.*)\)$/s, "$1").trim();
    while (TOKEN.lastIndex < source.length) {
      const from = TOKEN.lastIndex;
      const match = TOKEN.exec(source);
      if (!match) throw notASpec(text, source.slice(from).trim());
      if (match[2] !== undefined) tokens.push({name: match[2]});
      else if (match[3] !== undefined) tokens.push({word: match[3]});
      else tokens.push({sign: match[4]});
    }
    const count = (sign) => tokens.filter((token) => token.sign === sign).length;
    for (const [open, end] of ["()", "{}"])
      if (count(open) !== count(end))
        throw new Refusal(`${quoted(text.trim())} has a bracket that is never ${count(open) > count(end) ? "closed" : "opened"}.`);
    const spec = {entries: [], unreduced: []};
    let at = 0;
    const sign = (wanted) => tokens[at]?.sign === wanted && (at += 1, true);
    const fail = () => notASpec(text, at < tokens.length ? Object.values(tokens[at])[0] : "the end");

    /** Read one entry, or one name in a tuple or a set. */
    const entry = (within) => {
      const token = tokens[at];
      if (token === undefined) throw fail();
      if (sign("-")) return [];
      if (sign("(")) {
        const inside = separated(")");
        return inside.flat();
      }
      at += 1;
      if (token.name !== undefined) return [token.name];
      if (token.word === "None" && !within) return [];
      if (token.word === "P.UNCONSTRAINED")
        throw new Refusal("P.UNCONSTRAINED leaves a dimension to the compiler, so nobody knows its layout before it is compiled.");
      if (token.word !== undefined && token.word !== "None") return token.word.split(".");
      at -= 1;
      throw fail();
    };
    const separated = (end) => {
      const items = [];
      while (!sign(end)) {
        items.push(entry(true));
        if (sign(end)) break;
        if (!sign(",")) throw fail();
      }
      return items;
    };

    while (at < tokens.length) {
      if (tokens[at].word === "unreduced" && tokens[at + 1]?.sign === "=") {
        at += 2;
        spec.unreduced = sign("{") ? separated("}").flat() : entry(true);
      } else spec.entries.push(entry(false));
      if (at < tokens.length && !sign(",")) throw fail();
    }
    return spec;
  }

  function notASpec(text, found) {
    return new Refusal(
      `A spec has an entry for each dimension: an axis, a tuple of axes or None, such as P("x", None). ` +
      `${quoted(text.trim())} cannot be read from ${quoted(found)} on.`);
  }

  const quoted = (name) => `'${name}'`;

  /** Return a spec as a person would type it in Python. */
  function specAsCode(spec) {
    const parts = spec.entries.map((axes) => {
      const names = axes.map((name) => `"${name}"`).join(", ");
      return axes.length > 1 ? `(${names})` : names || "None";
    });
    if (spec.unreduced.length)
      parts.push(`unreduced={${[...spec.unreduced].sort().map((name) => `"${name}"`).join(", ")}}`);
    return `P(${parts.join(", ")})`;
  }

  /** Return a spec in the short form that links have: `y.x,-` or `x,unreduced=y`. */
  function specAsLink(spec) {
    const parts = spec.entries.map((axes) => axes.join(".") || "-");
    if (spec.unreduced.length) parts.push(`unreduced=${spec.unreduced.join(".")}`);
    return parts.join(",");
  }

  /** Return why JAX refuses a spec for a mesh and a shape, or nothing. */
  function explainMisfit(shape, mesh, spec) {
    const code = specAsCode(spec);
    const known = mesh.axes.map((axis) => axis.name);
    const names = spec.entries.flat();
    const unknown = [...names, ...spec.unreduced].find((name) => !known.includes(name));
    if (unknown !== undefined)
      return known.length
        ? `${code} names the axis ${quoted(unknown)}, which this mesh does not have: its axes are ${known.map(quoted).join(", ")}.`
        : `${code} names the axis ${quoted(unknown)}, and this mesh has no axes.`;
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined) return `${code} names the axis ${quoted(twice)} twice. An axis can shard only one dimension.`;
    const both = spec.unreduced.find((name) => names.includes(name));
    if (both !== undefined)
      return `${code} names the axis ${quoted(both)} twice. An axis either shards a dimension or is unreduced.`;
    if (spec.entries.length > shape.length)
      return `The spec ${code} has ${spec.entries.length} entries, and an array of shape ${words.tuple(shape)} has ${shape.length}.`;
    const counts = countShards(shape, mesh, spec);
    const uneven = shape.findIndex((size, d) => size % counts[d]);
    if (uneven >= 0)
      return `${code} makes ${counts[uneven]} shards of dimension ${uneven}, but its size, ${shape[uneven]}, ` +
        `is not a multiple of ${counts[uneven]}. An array's shards have equal sizes in JAX.`;
    return "";
  }

  /** Return the number of shards along each dimension. */
  function countShards(shape, mesh, spec) {
    return shape.map((_, d) => product((spec.entries[d] ?? []).map((name) => sizeOf(mesh, name))));
  }

  const sizeOf = (mesh, name) => mesh.axes.find((axis) => axis.name === name).size;

  /** Return the places of a mesh, in row-major order. */
  function placesOf(mesh) {
    return mesh.devices.map((_, flat) => {
      const place = [];
      for (const {size} of [...mesh.axes].reverse()) {
        place.unshift(flat % size);
        flat = Math.floor(flat / size);
      }
      return place;
    });
  }

  /**
   * Return the layout of a spec on a mesh, for an array of a shape.
   *
   * @returns {Layout}
   */
  function layoutOf(shape, mesh, spec) {
    const misfit = explainMisfit(shape, mesh, spec);
    if (misfit) throw new Refusal(misfit);
    const counts = countShards(shape, mesh, spec);
    const blockShape = shape.map((size, d) => size / counts[d]);
    let placements;
    return {shape, mesh, spec, counts, blockShape, get placements() { return (placements ??= placementsOf(this)); }};
  }

  /** Return each device's block; only where it is asked for, because there may be 512 of them. */
  function placementsOf({shape, mesh, spec, blockShape}) {
    const names = mesh.axes.map((axis) => axis.name);
    const axesOf = shape.map((_, d) => (spec.entries[d] ?? []).map((name) => names.indexOf(name)));
    return placesOf(mesh).map((place, i) => {
      const index = axesOf.map((axes) => axes.reduce((sum, axis) => sum * mesh.axes[axis].size + place[axis], 0));
      const block = index.map((number, d) => [number * blockShape[d], (number + 1) * blockShape[d]]);
      return {device: mesh.devices[i], place, index, block};
    });
  }

  /** Return the devices that hold each block, by the block's index in the grid, as text. */
  function holdersOf(layout) {
    const holders = new Map();
    for (const {index, device} of layout.placements) {
      const key = index.join();
      if (!holders.has(key)) holders.set(key, []);
      holders.get(key).push(device);
    }
    for (const ids of holders.values()) ids.sort((a, b) => a - b);
    return holders;
  }

  /** Return a layout in one sentence, without the full stop. */
  function describe(layout) {
    const {shape, counts, blockShape, placements} = layout;
    const ids = placements.map((p) => p.device).sort((a, b) => a - b);
    const blocks = product(counts);
    const sums = partialSums(layout);
    if (sums > 1) {
      const whole = blocks === 1 ? "" : ` in ${counts.join(" × ")} blocks of ${words.tuple(blockShape)}`;
      const copies = ids.length / blocks / sums;
      return `shape ${words.tuple(shape)}${whole}, ${sums} partial sums of ${blocks === 1 ? "it" : "each"}` +
        `${copies > 1 ? ` in ${copies} copies` : ""}, on ${words.devices(ids)}`;
    }
    if (shape.length === 0) return `a scalar on ${words.devices(ids)}`;
    if (blocks === 1) return `shape ${words.tuple(shape)}, whole on ${words.devices(ids)}`;
    const grid = `shape ${words.tuple(shape)} in ${counts.join(" × ")} blocks of ${words.tuple(blockShape)}`;
    const copies = ids.length / blocks;
    if (copies > 1) return `${grid}, ${copies} copies of each, on ${words.devices(ids)}`;
    const inOrder = [...placements].sort((a, b) => compareIndices(a.index, b.index)).map((p) => p.device);
    return `${grid}, on ${words.devices(inOrder)}`;
  }

  /** Return how many partial sums add up to a block: 1 if no axis is unreduced. */
  const partialSums = ({mesh, spec}) => product(spec.unreduced.map((name) => sizeOf(mesh, name)));

  /** Return the ids of the devices that hold a copy of what one device holds, and of those with other partial sums of it. */
  function sharersOf({mesh, spec, placements}, {index, place, device}) {
    const summed = mesh.axes.flatMap(({name}, d) => (spec.unreduced.includes(name) ? [d] : []));
    const others = placements.filter((p) => p.device !== device && p.index.join() === index.join());
    const isCopy = (p) => summed.every((d) => p.place[d] === place[d]);
    const ids = (found) => found.map((p) => p.device).sort((a, b) => a - b);
    return {copies: ids(others.filter(isCopy)), sums: ids(others.filter((p) => !isCopy(p)))};
  }

  function compareIndices(a, b) {
    const d = a.findIndex((number, i) => number !== b[i]);
    return d < 0 ? 0 : a[d] - b[d];
  }

  /** Return the bytes of one device's block. */
  function blockBytes(layout, dtype) {
    return product(layout.blockShape) * ITEM_BYTES[dtype];
  }

  /** Return a block as Python indexes it: `x[0:4, 2:4]`. */
  function blockAsCode(block) {
    return block.length ? `[${block.map(([first, end]) => `${first}:${end}`).join(", ")}]` : "[()]";
  }

  /** Return Python code that puts an array into a layout. */
  function layoutAsCode(layout, dtype) {
    return [
      "import jax", "import jax.numpy as jnp", ...(isInOrder(layout.mesh) ? [] : ["import numpy as np"]),
      "from jax import NamedSharding, P", "",
      "# With fewer devices, first let the CPU act as enough of them:",
      `# jax.config.update("jax_num_cpu_devices", ${Math.max(...layout.mesh.devices) + 1})`,
      ...(dtype === "float64" ? ['jax.config.update("jax_enable_x64", True)  # without it, JAX makes float32 of float64'] : []),
      meshAsCode(layout.mesh, "Explicit"),
      `x = jnp.zeros(${words.tuple(layout.shape)}, dtype="${dtype}")`,
      `x = jax.device_put(x, NamedSharding(mesh, ${specAsCode(layout.spec)}))`,
    ].join("\n");
  }

  const isInOrder = (mesh) => mesh.devices.every((id, i) => id === i);

  /** Return Python code that makes a mesh whose axes are all in one mode, such as `Auto`. */
  function meshAsCode(mesh, mode) {
    const sizes = words.tuple(mesh.axes.map((axis) => axis.size));
    const names = words.tuple(mesh.axes.map((axis) => `"${axis.name}"`));
    const types = `, axis_types=(jax.sharding.AxisType.${mode},) * ${mesh.axes.length}`;
    if (isInOrder(mesh)) return `mesh = jax.make_mesh(${sizes}, ${names}${types})`;
    return `devices = np.array(jax.devices())[[${mesh.devices.join(", ")}]]\n` +
      `mesh = jax.sharding.Mesh(devices.reshape(${sizes}), ${names}${types})`;
  }

  return {
    MAX_DEVICES, ITEM_BYTES, Refusal, reading, product, parseShape, parseMesh, parseSpec, specAsCode, specAsLink,
    explainMisfit, sizeOf, placesOf, layoutOf, holdersOf, partialSums, sharersOf, describe, blockBytes, blockAsCode, layoutAsCode, meshAsCode,
  };
})();
