"use strict";

/**
 * From one layout to another: what each device must receive, and the collectives that bring it there.
 *
 * The model has six moves. A move over several mesh axes is one collective.
 *
 * | move | what happens to a spec | each device sends |
 * |---|---|---|
 * | slice | a dimension gets an axis that the new layout uses at its end | nothing |
 * | all-gather | a dimension loses axes from its end | (n - 1) / n of its new block |
 * | all-to-all | axes go from the end of one dimension to the end of another | (n - 1) / n of its block |
 * | collective-permute | other axes, as many shards | its block |
 * | all-reduce | unreduced axes are summed | 2 (n - 1) / n of its block |
 * | reduce-scatter | unreduced axes are summed, and shard a dimension at its end | (n - 1) / n of its old block |
 *
 * Of all sequences of moves, the plan is the one with the fewest bytes sent, then with the fewest
 * moves. A compiler may choose another one.
 *
 * @typedef {{kind: string, axes: string[], devices: number, from: layouts.Layout, to: layouts.Layout,
 *     sent: number}} Step  `devices` is the size of a group, and `sent` is in elements.
 */
const reshards = (() => {
  const {product, sizeOf, Refusal} = layouts;
  const MAX_SPLIT_AXES = 4;

  /** Return the elements of a device's new block that its old one has not: the least it receives. */
  function elementsToReceive(from, to) {
    return to.placements.map((placement, i) => {
      const old = from.placements[i].block;
      const kept = product(placement.block.map(([first, end], d) =>
        Math.max(0, Math.min(end, old[d][1]) - Math.max(first, old[d][0]))));
      return product(to.blockShape) - kept;
    });
  }

  /**
   * Return the steps from one layout to another of the same shape and mesh.
   *
   * @returns {Step[]}
   */
  function planSteps(from, to) {
    const added = to.spec.unreduced.filter((name) => !from.spec.unreduced.includes(name));
    if (added.length)
      throw new Refusal(`${layouts.specAsCode(to.spec)} is unreduced over ${words.list(added)}, and ${layouts.specAsCode(from.spec)} is not. This page makes sums whole, and never partial.`);
    const start = stateOf(from);
    const goal = keyOf(stateOf(to));
    const search = movesOf(from.shape, from.mesh, stateOf(to).dims.flat());
    const best = new Map([[keyOf(start), {state: start, cost: [0, 0], done: false}]]);
    for (;;) {
      const node = cheapest(best);
      if (keyOf(node.state) === goal) return stepsTo(node, from.shape, from.mesh);
      node.done = true;
      for (const move of search(node.state)) {
        const cost = [node.cost[0] + move.sent, node.cost[1] + (move.kind === "slice" ? 0.01 : 1)];
        const known = best.get(keyOf(move.state));
        if (!known || isLess(cost, known.cost)) best.set(keyOf(move.state), {state: move.state, cost, move, before: node, done: false});
      }
    }
  }

  /** Return a layout on the mesh whose axes are split into axes of prime sizes, or null if these are too many to search. */
  function splitAxes({shape, mesh, spec}) {
    const parts = new Map(mesh.axes.map(({name, size}) => [name, primesOf(size).map((prime, i) => ({name: `${name} ${i}`, size: prime}))]));
    const axes = mesh.axes.flatMap(({name}) => parts.get(name));
    if (axes.length > MAX_SPLIT_AXES) return null;
    const namesOf = (names) => names.flatMap((name) => parts.get(name).map((axis) => axis.name));
    return layouts.layoutOf(shape, {axes, devices: mesh.devices}, {entries: spec.entries.map(namesOf), unreduced: namesOf(spec.unreduced)});
  }

  function primesOf(size) {
    for (let prime = 2; prime * prime <= size; prime += 1) if (size % prime === 0) return [prime, ...primesOf(size / prime)];
    return size > 1 ? [size] : [];
  }

  /** Return the elements that a device sends if parts of a mesh axis may move by themselves, or null if that was not searched. */
  function elementsIfSplit(from, to) {
    const [before, after] = [from, to].map(splitAxes);
    return before && planSteps(before, after).reduce((sum, step) => sum + step.sent, 0);
  }

  const isLess = (a, b) => a[0] < b[0] - 1e-9 || (a[0] < b[0] + 1e-9 && a[1] < b[1] - 1e-9);

  function cheapest(best) {
    let found = null;
    for (const node of best.values()) if (!node.done && (!found || isLess(node.cost, found.cost))) found = node;
    return found;
  }

  /** A layout as the search sees it: axes of size 1 neither shard nor send. */
  function stateOf({shape, mesh, spec}) {
    const large = (name) => sizeOf(mesh, name) > 1;
    return {dims: shape.map((_, d) => (spec.entries[d] ?? []).filter(large)), unreduced: spec.unreduced.filter(large).sort()};
  }

  const keyOf = ({dims, unreduced}) => `${dims.map((axes) => axes.join(".")).join(",")}|${unreduced.join(".")}`;

  /** Return the function from a state to the moves that are possible there; `wanted` are the axes of the goal. */
  function movesOf(shape, mesh, wanted) {
    const axes = mesh.axes.filter(({size}) => size > 1).map(({name}) => name);
    const size = (names) => product(names.map((name) => sizeOf(mesh, name)));
    const counts = (dims) => dims.map(size);
    const fits = (dims) => counts(dims).every((count, d) => shape[d] % count === 0);
    const elements = (dims) => product(shape.map((length, d) => length / size(dims[d])));
    const alike = groupsByCounts(shape.length, axes, counts);

    const change = (dims, changes) => dims.map((names, d) => changes[d] ?? names);

    return function* moves({dims, unreduced}) {
      const block = elements(dims);
      const move = (kind, names, to, left, sent) => ({kind, axes: names, devices: size(names), state: {dims: to, unreduced: left}, sent});
      const used = [...dims.flat(), ...unreduced];
      for (const [d, names] of dims.entries()) {
        for (const name of wanted.filter((axis) => !used.includes(axis))) {
          const to = change(dims, {[d]: [...names, name]});
          if (fits(to)) yield move("slice", [name], to, unreduced, 0);
        }
        for (let at = 0; at < names.length; at += 1) {
          const [left, last] = [names.slice(0, at), names.slice(at)];
          const n = size(last);
          yield move("all-gather", last, change(dims, {[d]: left}), unreduced, (n - 1) * block);
          for (const [e, others] of dims.entries()) {
            const to = change(dims, {[d]: left, [e]: [...others, ...last]});
            if (e !== d && fits(to)) yield move("all-to-all", last, to, unreduced, (n - 1) / n * block);
          }
        }
        for (const names of arrangementsOf(unreduced)) {
          const to = change(dims, {[d]: [...dims[d], ...names]});
          const n = size(names);
          if (fits(to)) yield move("reduce-scatter", names, to, unreduced.filter((name) => !names.includes(name)), (n - 1) / n * block);
        }
      }
      for (const names of subsetsOf(unreduced)) {
        const n = size(names);
        yield move("all-reduce", names, dims, unreduced.filter((name) => !names.includes(name)), 2 * (n - 1) / n * block);
      }
      for (const to of alike(dims)) {
        if (to.flat().some((name) => unreduced.includes(name)) || keyOf({dims: to, unreduced}) === keyOf({dims, unreduced})) continue;
        const moved = axes.filter((name) => dims.some((names, d) => names.indexOf(name) !== to[d].indexOf(name)));
        yield move("collective-permute", moved, to, unreduced, block);
      }
    };
  }

  /** Return the function that lists all specs with as many shards in each dimension. */
  function groupsByCounts(rank, axes, counts) {
    let groups = null;
    return (dims) => {
      if (!groups) {
        groups = new Map();
        for (const other of allDims(rank, axes)) {
          const key = counts(other).join();
          if (!groups.has(key)) groups.set(key, []);
          groups.get(key).push(other);
        }
      }
      return groups.get(counts(dims).join());
    };
  }

  /** Return every way to put some axes, in any order, onto dimensions. */
  function allDims(rank, axes) {
    return arrangementsOf(axes, true).flatMap((names) => splitsOf(names, rank));
  }

  /** Return the ways to cut a list into so many parts, which may be empty. */
  function splitsOf(names, parts) {
    if (parts === 0) return names.length ? [] : [[]];
    return Array.from({length: names.length + 1}, (_, at) =>
      splitsOf(names.slice(at), parts - 1).map((rest) => [names.slice(0, at), ...rest])).flat();
  }

  /** Return the ordered choices from a list, without the empty one unless it is asked for. */
  function arrangementsOf(names, withNone = false) {
    const found = [[]];
    for (let at = 0; at < found.length; at += 1)
      for (const name of names) if (!found[at].includes(name)) found.push([...found[at], name]);
    return withNone ? found : found.slice(1);
  }

  function subsetsOf(names) {
    return arrangementsOf(names).filter((chosen) => chosen.every((name, i) => i === 0 || chosen[i - 1] < name));
  }

  /** Return the steps that led to a node; slices that follow one another are one step. */
  function stepsTo(node, shape, mesh) {
    const steps = [];
    for (let at = node; at.before; at = at.before) {
      const [from, to] = [at.before.state, at.state].map((state) => layoutOfState(shape, mesh, state));
      const {kind, axes, devices, sent} = at.move;
      if (kind === "slice" && steps[0]?.kind === "slice") {
        steps[0] = {...steps[0], axes: [...axes, ...steps[0].axes], devices: devices * steps[0].devices, from};
      } else steps.unshift({kind, axes, devices, from, to, sent});
    }
    return steps;
  }

  function layoutOfState(shape, mesh, {dims, unreduced}) {
    return layouts.layoutOf(shape, mesh, {entries: dims, unreduced});
  }

  /**
   * Return, for each device, the places of the devices whose data it gets in a step.
   *
   * In a permutation that is one device; otherwise, all of its group whose blocks it needs a part of.
   */
  function sourcesOf(step) {
    if (!sourcesOfSteps.has(step)) sourcesOfSteps.set(step, findSources(step));
    return sourcesOfSteps.get(step);
  }

  const sourcesOfSteps = new WeakMap();

  function findSources(step) {
    const {from, to} = step;
    if (step.kind === "slice") return to.placements.map(() => []);
    if (step.kind === "collective-permute") return permutationSources(step);
    const along = step.axes.map((name) => from.mesh.axes.findIndex((axis) => axis.name === name));
    const groupOf = ({place}) => place.filter((_, d) => !along.includes(d)).join();
    const sums = step.kind === "all-reduce" || step.kind === "reduce-scatter";
    const groups = new Map();
    from.placements.forEach((source, j) => groups.set(groupOf(source), [...(groups.get(groupOf(source)) ?? []), j]));
    return to.placements.map((target, i) => groups.get(groupOf(target))
      .filter((j) => j !== i && (sums || overlap(from.placements[j].block, target.block))));
  }

  const overlap = (a, b) => a.every(([first, end], d) => first < b[d][1] && b[d][0] < end);

  /** Match each device with a holder of its new block, with itself if it holds it already. */
  function permutationSources({from, to}) {
    const free = new Map();
    const at = (block) => block.join(";");
    from.placements.forEach((source, j) => free.set(at(source.block), [...(free.get(at(source.block)) ?? []), j]));
    const stays = to.placements.map((target, i) => at(target.block) === at(from.placements[i].block));
    stays.forEach((stay, i) => { if (stay) free.set(at(to.placements[i].block), free.get(at(to.placements[i].block)).filter((j) => j !== i)); });
    return to.placements.map((target, i) => (stays[i] ? [] : [free.get(at(target.block)).shift()]));
  }

  return {elementsToReceive, elementsIfSplit, primesOf, planSteps, sourcesOf};
})();
