"use strict";

/** The fourth part: a step of training a transformer, sharded in four ways. */
const transformerPart = (() => {
  const {html, svg, picture} = drawing;
  const AXES = {data: "Data", fsdp: "FSDP", tensor: "Tensor", sequence: "Sequence"};
  const HINTS = {
    data: "copies of the weights, each with other sequences", fsdp: "other sequences too, and the weights sharded",
    tensor: "heads and hidden units sharded", sequence: "tokens sharded: context parallelism",
  };
  const ITEM_BYTES = {bfloat16: 2, float32: 4};
  const LABEL = 120;
  const TIGHT = 0.9;

  const defaults = {model: "Llama 2 7B", data: "1", fsdp: "16", tensor: "4", sequence: "1", batch: "64", length: "4096", dtype: "bfloat16"};

  /** Read the fields into a run. */
  function read(fields) {
    const model = transformers.MODELS[fields.model];
    if (!model) throw new layouts.Refusal(`There is no model ${fields.model} here; there are ${words.list(Object.keys(transformers.MODELS))}.`);
    const number = (name) => {
      const [size] = layouts.parseShape(fields[name]);
      if (!(size > 0)) throw new layouts.Refusal(`${name} has to be at least 1.`);
      return size;
    };
    const degrees = Object.fromEntries(Object.keys(AXES).map((name) => [name, number(name)]));
    const run = {model, degrees, batch: number("batch"), length: number("length"), itemBytes: ITEM_BYTES[fields.dtype] ?? 2};
    const misfit = transformers.explainMisfit(run);
    if (misfit) throw Object.assign(new layouts.Refusal(misfit.message), {field: misfit.field});
    return run;
  }

  function build(host, fields, save) {
    const change = (name) => (value) => { fields[name] = String(value); draw(); save(); };
    const inputs = {};
    const keep = (name, {input, row}) => { inputs[name] = input; return row; };
    const power = (name, label, max) => keep(name, controls.slider(label, {min: 0, max, value: Math.round(Math.log2(Number(fields[name]) || 1)),
      inWords: (p) => (2 ** p).toLocaleString("en-US"), hint: HINTS[name], changed: (p) => change(name)(2 ** p)}));
    const choice = (name, label, options) => controls.choice(label, {value: fields[name], options: options.map((option) => [option, option]), changed: change(name)}).row;
    const sentence = html("p", {class: "sentence", "aria-live": "polite"});
    const details = html("div");
    const settings = html("div", {class: "controls"}, choice("model", "Model", Object.keys(transformers.MODELS)),
      Object.entries(AXES).map(([name, label]) => power(name, label, 9)),
      power("batch", "Batch, in sequences", 12), power("length", "Sequence, in tokens", 17), choice("dtype", "Type of the weights", Object.keys(ITEM_BYTES)));
    const results = controls.results(inputs, sentence, details);
    host.append(settings, results.element);

    function draw() {
      const run = results.attempt(() => read(fields));
      if (!run) return;
      const memory = transformers.memoryOf(run);
      const sent = transformers.sentBytes(run);
      const devices = layouts.product(Object.values(run.degrees));
      sentence.textContent = summary(run);
      details.replaceChildren(
        html("figure", {}, html("figcaption", {}, "Memory of a device"), memoryPicture(memory, details.clientWidth || 600)),
        controls.table("A step on four machines", ["Machine", "Memory", "Compute", "Send", "The limit"], course.machines.map((machine) => machineRow(run, machine, devices))),
        html("p", {class: "legend"}, notes(run, devices)),
        controls.foldedTable("Memory of a device", ["What", "Arithmetic", "Bytes"], memory.map(({name, formula, bytes}) => [name, formula, gibibytes(bytes)]), true),
        controls.foldedTable("What a device sends in a step", ["Sharding", "Collective", "Arithmetic", "Bytes"],
          sent.filter(({bytes}) => bytes > 0).map(({name, kind, formula, bytes}) => [name, kind, formula, gibibytes(bytes)]), true),
        assumptions(run, fields.model),
        html("p", {}, "The same layers in JAX, with this mesh and these specs. The last line shows what the compiler makes of them. It may send up to two thirds more than the table says, because it adds up the gradients through query, key and value one by one, and those through gate and up."),
        controls.codeBlock(transformerCode.write(run, {dtype: fields.dtype, machine: fastestThatFits(run).name})));
    }

    draw();
    return {draw};
  }

  const plural = (number, noun) => `${words.count(number)} ${noun}${number === 1 ? "" : "s"}`;

  function summary(run) {
    const devices = layouts.product(Object.values(run.degrees));
    const {memory} = transformers.timesOf(run, course.machines[0]);
    const fitting = course.machines.filter((machine) => transformers.timesOf(run, machine).fits).map(({name}) => name);
    return `${words.count(transformers.countParameters(run.model).all)} parameters on ${plural(devices, "device")}, ` +
      `${plural(run.batch * run.length, "token")} in a step: ${gibibytes(memory)} on each device. ` +
      (fitting.length ? `It fits on ${words.list(fitting)}.` : "It fits on none of the four machines.");
  }

  /** Return the machine that fits and takes the shortest time; if none fits, the fastest of all. */
  function fastestThatFits(run) {
    const time = (machine) => { const {computing, communicating} = transformers.timesOf(run, machine); return Math.max(computing, communicating); };
    const inOrder = [...course.machines].sort((a, b) => time(a) - time(b));
    return inOrder.find((machine) => transformers.timesOf(run, machine).fits) ?? inOrder[0];
  }

  const isTight = (memory, {capacity}) => memory <= capacity && memory > TIGHT * capacity;

  /** Return what the table does not say: what else a full memory has to hold, and where links are slower. */
  function notes(run, devices) {
    const {memory} = transformers.timesOf(run, course.machines[0]);
    const sold = capacities().map((capacity) => `${words.count(capacity / 1e9)} GB as ${gibibytes(capacity)}`);
    const always = `Times are at a machine's full speed: a real step takes longer. Memory is taken from specifications, in powers of ten (${words.list(sold)}); a device may have a little more. `;
    const tight = course.machines.some((machine) => isTight(memory, machine))
      ? "Barely: more than 90% full, and logits and the runtime's own memory, which this sum leaves out, may not fit." : "";
    return always + tight + course.machines.map((machine) => matmulPart.slowerLinks(machine, devices)).join("");
  }

  function machineRow(run, machine, devices) {
    const {memory, fits, computing, communicating} = transformers.timesOf(run, machine);
    const room = gibibytes(machine.capacity);
    const isSlower = matmulPart.slowerLinks(machine, devices) !== "";
    const unbroken = (seconds) => words.time(seconds).replace(" ", "\u00a0");
    return [machine.name, fits ? `${isTight(memory, machine) ? "barely fits" : "fits"} into ${room}` : `${gibibytes(memory)} do not fit into ${room}`, unbroken(computing), `${isSlower ? "over " : ""}${unbroken(communicating)}`,
      communicating > computing ? "sending" : isSlower ? "computing, or slower links" : "computing"];
  }

  /** Return the sizes of the machines' memories in bytes, the smallest first. */
  const capacities = () => [...new Set(course.machines.map(({capacity}) => capacity))].sort((a, b) => a - b);

  /** Return bytes in GiB, whatever their number, so that they compare with a machine's memory. */
  const gibibytes = (bytes) => `${words.rounded(bytes / 2 ** 30)} GiB`;

  /** Draw a bar of what the memory holds, and lines where machines are full. */
  function memoryPicture(memory, room) {
    const width = Math.min(room, 620);
    const total = memory.reduce((sum, {bytes}) => sum + bytes, 0);
    const limits = capacities();
    const end = Math.max(total, limits.at(-1)) * 1.08;
    const x = (bytes) => bytes / end * (width - 12) + 6;
    const bar = 15 * limits.length + 6;
    let at = 0;
    const parts = memory.map(({name, bytes}, i) => {
      const from = x(at);
      at += bytes;
      return svg("rect", {class: "part-of-memory", x: from, y: bar, width: Math.max(0, x(at) - from), height: 36, fill: course.tints[i]}, svg("title", {}, `${name}: ${gibibytes(bytes)}`));
    });
    const perRow = width > 500 ? 3 : 2;
    const key = memory.map(({name}, i) => {
      const [left, top] = [6 + (i % perRow) * (width - 12) / perRow, bar + 58 + Math.floor(i / perRow) * 20];
      return svg("g", {}, svg("rect", {class: "part-of-memory", x: left, y: top, width: 12, height: 12, fill: course.tints[i]}),
        svg("text", {class: "start", x: left + 18, y: top + 10}, name));
    });
    const fitRight = x(limits.at(-1)) + LABEL < width; // labels are beside their lines, and in rows so that no line crosses one
    const lines = limits.map((capacity, i) => {
      const top = 15 * (fitRight ? i : limits.length - 1 - i);
      const isRight = fitRight || x(capacity) < LABEL;
      return svg("g", {}, svg("path", {class: "roof", d: `M${x(capacity)},${top + 4}V${bar + 42}`}),
        svg("text", {class: `muted ${isRight ? "start" : "end"}`, x: x(capacity) + (isRight ? 5 : -5), y: top + 13}, `${machinesWith(capacity)}: ${gibibytes(capacity)}`));
    });
    const said = memory.map(({name, bytes}) => `${name} ${gibibytes(bytes)}`).join(", ");
    return picture(width, bar + 58 + Math.ceil(memory.length / perRow) * 20, `The memory of a device: ${said}; ${gibibytes(total)} in sum. ${words.list(limits.map((capacity) => `${machinesWith(capacity)} has ${gibibytes(capacity)}`))}.`, parts, lines, key);
  }

  /** Return the machines with a capacity, as far as their names agree: `H100`. */
  function machinesWith(capacity) {
    const [first, ...others] = course.machines.filter((machine) => machine.capacity === capacity).map(({name}) => name.split(" "));
    return first.filter((word, i) => others.every((name) => name[i] === word)).join(" ");
  }

  function assumptions(run, name) {
    const source = (address, text) => html("a", {href: address}, text);
    return html("details", {}, html("summary", {}, "What this page assumes, and where the numbers come from"),
      html("p", {}, `${name}: ${run.model.layers} layers, width ${run.model.width}, hidden size ${run.model.hidden}, ${run.model.heads} heads, ${run.model.kvHeads} for keys and values` +
        `${run.model.experts > 1 ? `, ${run.model.experts} experts of which a token uses ${run.model.active}` : ""} (`, source(run.model.source, "its paper"), ")."),
      html("p", {}, "Each layer is in jax.checkpoint: its input is kept, and everything else is computed again, so a step takes four passes over the layers. Weights are gathered twice. Tensor sharding takes five all-reduces in a layer: two forwards, one again, two backwards. Adam's two moments are in float32. A test compiles such layers at small sizes, and finds these bytes and operations."),
      html("p", {}, "Left out: norms' gradients, the loss, looking up embeddings, and logits. All of an expert's weights are sharded and gathered like the others, so no tokens travel to experts. Attention computes the masked half, too. Sending is at the speed of one mesh axis of the machine, without latency; a step takes at least the longer of both times, and more, because no program runs at full speed. The time to read weights from memory is left out, which is the limit where a device has few tokens."),
      html("p", {}, "What is sharded and sent: ", source("https://jax-ml.github.io/scaling-book/training/", "the Scaling Book, Training"), ". Checkpoints: ", source("https://arxiv.org/abs/1604.06174", "Chen et al. 2016"), ". Machines: ",
        course.machines.filter(({source: address}) => address.startsWith("http")).flatMap(({name: machine, source: address}, i) => [i ? ", " : "", source(address, machine)]), "."));
  }

  return {title: "A transformer", defaults, build, toLink: (fields) => fields, read};
})();
