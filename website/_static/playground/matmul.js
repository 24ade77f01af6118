"use strict";

/**
 * A matmul of sharded matrices, C[i, k] = Σ A[i, j] B[j, k]: ways to compute it, and what each costs.
 *
 * A device can multiply its blocks of A and B if both are sharded alike over j, and i and k are
 * sharded over different axes. Where j is sharded, the product is a partial sum. So a way has four
 * stages: move A, move B, multiply, and move C, which may add up partial sums. (The Scaling Book,
 * "Sharded matrices and how to multiply them", has the four cases that follow:
 * https://jax-ml.github.io/scaling-book/sharding/)
 *
 * @typedef {{left: layouts.Layout, right: layouts.Layout, product: layouts.Layout, moves: {A: reshards.Step[],
 *     B: reshards.Step[], C: reshards.Step[]}, sent: number, flops: number, repeats: number}} Way
 *     The layouts in which the blocks are multiplied, what moves before and after, and what each
 *     device sends, in elements, and computes: in operations, and as a multiple of its share of the
 *     matmul, which is more than 1 if devices repeat each other's work.
 */
const matmuls = (() => {
  const {product, sizeOf, layoutOf} = layouts;

  /**
   * Return the ways to compute a matmul.
   *
   * @param {{i: number, j: number, k: number}} sizes
   * @param {layouts.Mesh} mesh
   * @param {{A: layouts.Spec, B: layouts.Spec, C: layouts.Spec}} specs
   * @returns {Way[]}
   */
  function waysOf({i, j, k}, mesh, specs) {
    const [A, B, C] = [layoutOf([i, j], mesh, specs.A), layoutOf([j, k], mesh, specs.B), layoutOf([i, k], mesh, specs.C)];
    const plan = remembered((from, to) => reshards.planSteps(from, to));
    const ways = [];
    for (const {rows, inner, columns} of multiplications(mesh, [A, B, C])) {
      const spec = (...entries) => ({entries, unreduced: []});
      if ([[i, rows], [j, inner], [k, columns]].some(([size, axes]) => size % product(axes.map((axis) => sizeOf(mesh, axis))))) continue;
      const left = layoutOf([i, j], mesh, spec(rows, inner));
      const right = layoutOf([j, k], mesh, spec(inner, columns));
      const result = layoutOf([i, k], mesh, {entries: [rows, columns], unreduced: inner});
      const moves = {A: plan(A, left), B: plan(B, right), C: plan(result, C)};
      const sent = Object.values(moves).flat().reduce((sum, step) => sum + step.sent, 0);
      const flops = 2 * product(left.blockShape) * right.blockShape[1];
      const repeats = flops / (2 * i * j * k / mesh.devices.length);
      ways.push({left, right, product: result, moves, sent, flops, repeats});
    }
    return ways;
  }

  /**
   * Return ways in order of their times on a machine, if sending and computing overlap.
   *
   * Where that is equal, the one that sends the least comes first, and then the one that computes the least.
   */
  function fastestFirst(ways, machine, itemBytes) {
    const time = (way) => Math.max(...Object.values(timesOf(way, machine, itemBytes)));
    return [...ways].sort((a, b) => time(a) - time(b) || a.sent - b.sent || a.flops - b.flops);
  }

  /** Return a function that remembers the results for each pair of layouts. */
  function remembered(plan) {
    const known = new Map();
    return (from, to) => {
      const key = [from, to].map(({shape, spec}) => `${shape}:${layouts.specAsLink(spec)}`).join(";");
      if (!known.has(key)) known.set(key, plan(from, to));
      return known.get(key);
    };
  }

  /**
   * Yield the axes over which i, j and k may be sharded while devices multiply.
   *
   * A dimension keeps a beginning of the axes that it has in A, B or C: an all-gather takes axes
   * from the end, and a slice adds them there.
   */
  function* multiplications(mesh, [A, B, C]) {
    const axes = ({spec}, d) => (spec.entries[d] ?? []).filter((name) => sizeOf(mesh, name) > 1);
    for (const rows of beginnings(axes(A, 0), axes(C, 0)))
      for (const inner of beginnings(axes(A, 1), axes(B, 0)))
        for (const columns of beginnings(axes(B, 1), axes(C, 1))) {
          const all = [...rows, ...inner, ...columns];
          if (new Set(all).size === all.length) yield {rows, inner, columns};
        }
  }

  function beginnings(...lists) {
    const found = new Map();
    for (const list of lists) for (let n = 0; n <= list.length; n += 1) found.set(list.slice(0, n).join("."), list.slice(0, n));
    return [...found.values()];
  }

  /**
   * Return the time of a way on a machine, in seconds, and which of both is the limit.
   *
   * @param {Way} way
   * @param {{flops: number, link: number, torus: number}} machine
   */
  function timesOf(way, machine, itemBytes) {
    const sending = Object.values(way.moves).flat().map((step) => sendingTime(step, machine, itemBytes));
    return {computing: way.flops / machine.flops, communicating: sending.reduce((sum, time) => sum + time, 0)};
  }

  /** Return the time of a step on a machine, in seconds. */
  function sendingTime(step, machine, itemBytes) {
    return (machine.torus ? loadInTorus(step, machine.torus) : step.sent) * itemBytes / machine.link;
  }

  /**
   * Return the elements that a chip's links along one axis carry in a step, as reports count them.
   *
   * Axes share the work, and what is not for a neighbour passes the chips between.
   */
  function loadInTorus(step, dimensions) {
    if (step.kind === "collective-permute") return step.sent * ringPasses(step);
    const ascending = (values) => values.sort((a, b) => a - b);
    let sizes = ascending(step.axes.map((name) => sizeOf(step.from.mesh, name)).filter((size) => size > 1));
    while (sizes.length > dimensions) sizes = ascending([sizes[0] * sizes[1], ...sizes.slice(2)]); // two mesh axes are one of the torus
    if (step.kind !== "all-to-all") return step.sent / sizes.length;
    const [longest, buffer] = [sizes.at(-1), step.sent * step.devices / (step.devices - 1)];
    return buffer * Math.floor(longest ** 2 / 4) / longest;
  }

  /**
   * Return how often a permutation's block passes the busiest link, in the time that both directions take.
   *
   * A block goes along one axis after the other, the shorter way round, and half of it each way if both are as long.
   */
  function ringPasses(step) {
    const places = step.from.placements.map(({place}) => place);
    const carried = new Map();
    reshards.sourcesOf(step).forEach((sources, target) => sources.forEach((source) => {
      const at = [...places[source]];
      step.from.mesh.axes.forEach(({size}, d) => {
        const there = (places[target][d] - at[d] + size) % size;
        for (const [direction, steps] of [[1, there], [-1, (size - there) % size]]) {
          if (steps === 0 || 2 * steps > size) continue;
          for (let n = 0; n < steps; n += 1) {
            const link = `${d}:${at.map((place, i) => (i === d ? (place + direction * n + size) % size : place))}:${direction}`;
            carried.set(link, (carried.get(link) ?? 0) + (2 * steps === size ? 0.5 : 1));
          }
        }
        at[d] = places[target][d];
      });
    }));
    return 2 * Math.max(0, ...carried.values());
  }

  return {waysOf, fastestFirst, timesOf, sendingTime};
})();
