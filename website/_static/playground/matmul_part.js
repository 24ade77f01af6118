"use strict";

/** The third part: a matmul of sharded matrices, what it sends, and whether that is the limit. */
const matmulPart = (() => {
  const {html} = drawing;
  const {asCode, shortSpec, capitalised} = layoutPart;
  const MAX_WAYS = 5;
  const MAX_TRAIL = 16;
  const MICROSECOND = 1e-6;

  const defaults = {i: "8192", j: "4096", k: "16384", mesh: "x:4,y:4", A: "x,-", B: "x,y", C: "x,y", machine: "TPU v5e", way: "0"};
  const MATRICES = {A: ["i", "j"], B: ["j", "k"], C: ["i", "k"]};

  /** Read the fields; every problem is a `layouts.Refusal`. */
  function read(fields) {
    const sizes = {};
    for (const name of ["i", "j", "k"]) {
      [sizes[name]] = layouts.parseShape(fields[name]);
      if (!(sizes[name] > 0)) throw new layouts.Refusal(`The size ${name} has to be at least 1.`);
    }
    const mesh = layouts.reading("mesh", () => layouts.parseMesh(fields.mesh));
    const specs = Object.fromEntries(Object.keys(MATRICES).map((name) => [name, layouts.reading(name, () => readSpec(name, fields[name], sizes, mesh))]));
    const machine = course.machines.find(({name}) => name === fields.machine);
    if (!machine) throw new layouts.Refusal(`There is no machine ${fields.machine} here; there are ${words.list(course.machines.map(({name}) => name))}.`);
    return {sizes, mesh, specs, machine, itemBytes: layouts.ITEM_BYTES.bfloat16};
  }

  /** Read the spec of a matrix, and refuse it if the matrix cannot be sharded like that. */
  function readSpec(name, text, sizes, mesh) {
    const spec = layouts.parseSpec(text);
    if (spec.unreduced.length) throw new layouts.Refusal(`${name} has partial sums. Here they arise in the multiplication only.`);
    const misfit = layouts.explainMisfit(MATRICES[name].map((letter) => sizes[letter]), mesh, spec);
    if (misfit) throw new layouts.Refusal(`${name}: ${misfit}`);
    return spec;
  }

  /** Return what a way moves, in words: `all-gather of B over x`. */
  function wayInWords(way) {
    const parts = Object.entries(way.moves).flatMap(([name, steps]) => steps.filter((step) => step.kind !== "slice")
      .map((step) => `${step.kind} of ${name}${step.kind === "collective-permute" ? "" : ` over ${words.list(step.axes)}`}`));
    return parts.length ? words.list(parts) : "nothing is sent";
  }

  /** Return ways without those that move the same as a faster one, and compute more. */
  function distinct(ways) {
    return [...new Map([...ways].reverse().map((way) => [wayInWords(way), way])).values()].reverse();
  }

  const workInWords = ({flops, repeats}) => `${words.count(flops)} operations${repeats > 1 ? `, ${words.rounded(repeats)} times its share` : ""}`;

  function build(host, fields, save) {
    let trail = [];
    const change = (name) => (value) => { fields[name] = String(value); if (name !== "way") fields.way = "0"; draw(); save(); };
    const size = (name, label) => controls.slider(label, {min: 4, max: 17, value: Math.round(Math.log2(Number(fields[name]) || 1)),
      inWords: (power) => (Math.round(Math.log2(Number(fields[name]) || 1)) === power ? Number(fields[name]) : 2 ** power).toLocaleString("en-US"), changed: (power) => change(name)(2 ** power)});
    const field = (name, label, hint = "") => controls.textField(label, {value: name === "mesh" ? fields.mesh : asCode(fields[name]), hint, changed: change(name)});
    const choice = (name, label, options) => controls.choice(label, {value: fields[name], options: options.map((option) => [option, option]), changed: change(name)});
    const sentence = html("p", {class: "sentence", "aria-live": "polite"});
    const details = html("div");
    const texts = {mesh: field("mesh", "Mesh", "axes and sizes, such as x:4, y:4"), A: field("A", "Spec of A[i, j]"), B: field("B", "Spec of B[j, k]"), C: field("C", "Spec of C[i, k]")};
    const rows = Object.values(texts).map(({row}) => row);
    const results = controls.results(Object.fromEntries(Object.entries(texts).map(([name, {input}]) => [name, input])), sentence, details);
    host.append(
      html("div", {class: "controls"},
        size("i", "i: rows of A and C").row, size("j", "j: columns of A, rows of B").row, size("k", "k: columns of B and C").row,
        rows, choice("machine", "Machine", course.machines.map(({name}) => name)).row),
      results.element);

    function draw() {
      const problem = results.attempt(() => read(fields));
      if (!problem) return;
      const {sizes, mesh, specs, machine, itemBytes} = problem;
      const ways = distinct(matmuls.fastestFirst(matmuls.waysOf(sizes, mesh, specs), machine, itemBytes));
      const shown = ways.slice(0, MAX_WAYS);
      const number = Math.min(Math.max(Number(fields.way) || 0, 0), shown.length - 1);
      const way = shown[number];
      const times = matmuls.timesOf(way, machine, itemBytes);
      sentence.textContent = verdict(way, times, machine, itemBytes) + (way.sent ? slowerLinks(machine, mesh.devices.length) : "");
      const points = shown.map((other, i) => ({flops: other.flops / other.repeats, repeats: other.repeats, bytes: matmuls.timesOf(other, machine, itemBytes).communicating * machine.link, label: `way ${i + 1}`, chosen: i === number}));
      const picture = roofline.draw(machine, points, trail);
      trail = [...trail, points[number]].slice(-MAX_TRAIL);
      details.replaceChildren(
        html("figure", {}, html("figcaption", {}, `What ${machine.name} can reach`), picture,
          html("p", {class: "legend"}, "A point is a way, and the large one is the chosen way. Higher is faster, if a device sends while it computes. " +
            "Work that devices repeat is not useful: such a way stays below the roof. A way that sends nothing is at the right edge.")),
        html("ol", {class: "steps"}, shown.map((other, i) => wayLine(other, i, i === number, machine, itemBytes, () => change("way")(i)))),
        html("div", {class: "pictures"}, Object.keys(MATRICES).map((name) => matrix(name, problem))),
        controls.foldedTable("The steps as a table", ["Step", "What", "Group of", "A device sends", "Takes"], stepRows(way, machine, itemBytes)),
        html("details", {}, html("summary", {}, "What this page assumes"), ...assumptions(machine)),
        controls.codeBlock(asCodeOf(problem)));
    }

    draw();
    return {draw};
  }

  function matrix(name, {sizes, mesh, specs}) {
    const shape = MATRICES[name].map((letter) => sizes[letter]);
    const layout = layouts.layoutOf(shape, mesh, specs[name]);
    return html("figure", {}, html("figcaption", {}, `${name}: ${layouts.specAsCode(specs[name])}`), drawing.drawArray(layout, 250));
  }

  function wayLine(way, i, current, machine, itemBytes, choose) {
    const {computing, communicating} = matmuls.timesOf(way, machine, itemBytes);
    return html("li", {}, html("button", {type: "button", "aria-current": current ? "step" : undefined, onclick: choose}, `Way ${i + 1}`),
      ` ${wayInWords(way)}: each device sends ${words.bytes(way.sent * itemBytes)} (${words.time(communicating)}) and computes ${workInWords(way)} (${words.time(computing)})`);
  }

  /** Return which of both is the limit, in a sentence. */
  function verdict(way, {computing, communicating}, machine, itemBytes) {
    const what = capitalised(wayInWords(way));
    const repeated = way.repeats > 1 ? ` Each device computes ${words.rounded(way.repeats)} times its share, because devices repeat each other's work.` : "";
    if (communicating === 0) return `${what}. Arithmetic is the limit: ${words.time(computing)} on ${machine.name}.${repeated}`;
    const latency = communicating < MICROSECOND ? " Starting a message, which is left out here, takes longer than sending so little." : "";
    const ratio = communicating / computing;
    const limit = ratio > 1
      ? `Communication is the limit: sending takes ${words.rounded(ratio)} times as long as computing`
      : `Arithmetic is the limit: computing takes ${words.rounded(1 / ratio)} times as long as sending`;
    return `${what}. ${limit} on ${machine.name} (${words.time(communicating)} to send ${words.bytes(way.sent * itemBytes)}, ${words.time(computing)} to compute).${latency}${repeated}`;
  }

  /** Return a warning if so many chips of a machine have no common links. */
  function slowerLinks(machine, devices) {
    if (!machine.linked || devices <= machine.linked) return "";
    return ` At most ${words.count(machine.linked)} chips of ${machine.name} share such links: with ${devices}, sending takes longer than this.`;
  }

  function stepRows(way, machine, itemBytes) {
    const rows = (name) => way.moves[name].map((step) => [`${step.kind} of ${name}${step.kind === "collective-permute" ? "" : ` over ${words.list(step.axes)}`}`,
      String(step.devices), words.bytes(step.sent * itemBytes), words.time(matmuls.sendingTime(step, machine, itemBytes))]);
    const blocks = `${words.tuple(way.left.blockShape)} times ${words.tuple(way.right.blockShape)}${way.product.spec.unreduced.length ? ", a partial sum" : ""}`;
    const multiply = [`multiply ${blocks}`, "1", "nothing", words.time(way.flops / machine.flops)];
    return [...rows("A"), ...rows("B"), multiply, ...rows("C")].map((row, i) => [String(i + 1), ...row]);
  }

  const network = ({torus}) => torus
    ? `Each mesh axis is assumed to be a ring in a torus of ${torus} dimensions; along an open row of chips, sending takes up to twice as long. Over two axes, the links of both work at once. A collective-permute waits for its busiest link, which sends in one direction. In an all-to-all, chips pass on what is for others. In the picture above, a byte counts as often as it occupies the links of an axis.`
    : "Chips are behind a switch, through which each sends to any other at its full bandwidth.";

  function assumptions(machine) {
    return [
      html("p", {}, "A device multiplies its blocks if j is sharded alike in A and B, and i and k over other axes. What does not fit is moved before; partial sums are added up after. The way that is fastest on this machine comes first, if it sends while it computes. The compiler knows nothing of the machine's links, and may take another one; the last line of the code shows which. Where a CPU emulates the devices, XLA may send bfloat16 as float32, which is twice the bytes."),
      html("p", {}, `${machine.name}: ${words.count(machine.flops)} operations a second in bfloat16, and ${words.bytes(machine.link)} a second that a chip sends along one mesh axis (`, machine.source.startsWith("http") ? html("a", {href: machine.source}, "its specification") : machine.source, `). ${network(machine)} Latency is left out. Memory is left out: whether the matrices fit into it, and the time to read them, which is the limit where the matrices are small. Both times are at full speed, which no program quite reaches: if sending and computing overlap, a device needs at least the longer one, and if not, their sum.`),
      html("p", {}, "The four cases of a sharded matmul are in ", html("a", {href: "https://jax-ml.github.io/scaling-book/sharding/"}, "the Scaling Book"), ", and so is the roofline of communication."),
    ];
  }

  /** Return Python code that compiles the matmul, and shows what it communicates. */
  function asCodeOf({sizes, mesh, specs}) {
    const argument = (name) => `${name} = jax.ShapeDtypeStruct(${words.tuple(MATRICES[name].map((letter) => sizes[letter]))}, "bfloat16", sharding=NamedSharding(mesh, ${layouts.specAsCode(specs[name])}))`;
    return ["import jax", "import jax.numpy as jnp", "from jax import NamedSharding, P", "", "from shardlings import communication, emulate_devices", "",
      "# On emulated devices, XLA may send bfloat16 as float32; the last line then reports twice the bytes.", `emulate_devices(${mesh.devices.length})`, layouts.meshAsCode(mesh, "Auto"), argument("A"), argument("B"),
      `f = jax.jit(jnp.dot, out_shardings=NamedSharding(mesh, ${layouts.specAsCode(specs.C)}))`, "communication(f, A, B)"].join("\n");
  }

  const toLink = (fields) => ({...fields, A: shortSpec(fields.A), B: shortSpec(fields.B), C: shortSpec(fields.C)});

  return {title: "Matmul", defaults, build, toLink, read, slowerLinks};
})();
