"use strict";

/** The second part: what moves if an array goes from one layout to another. */
const reshardPart = (() => {
  const {html} = drawing;
  const {asCode, shortSpec, capitalised} = layoutPart;
  const PAUSE = 1600;

  const defaults = {shape: "8,16", mesh: "x:2,y:4", devices: "", from: "y,-", to: "-,y", dtype: "float32", device: "0", step: "0"};

  const SENTENCES = {
    "slice": (step) => `Each device keeps a part of its block, and nothing is sent.`,
    "all-gather": (step) => `Every group of ${step.devices} devices along ${along(step)} exchanges its blocks, until each has all of them.`,
    "all-to-all": (step) => `In every group of ${step.devices} devices along ${along(step)}, each keeps one piece of its block and sends one to each of the others.`,
    "collective-permute": () => "Each device sends its block to at most one other, and gets one.",
    "all-reduce": (step) => `Every group of ${step.devices} devices along ${along(step)} adds up its partial sums, and each gets the whole sum.`,
    "reduce-scatter": (step) => `Every group of ${step.devices} devices along ${along(step)} adds up its partial sums, and each keeps one piece of the sum.`,
  };
  const along = (step) => words.list(step.axes);

  /** Read the fields into two layouts. */
  function read(fields) {
    const {shape, mesh} = layoutPart.readArray(fields);
    const [from, to] = ["from", "to"].map((name) => layouts.reading(name, () => layouts.layoutOf(shape, mesh, layouts.parseSpec(fields[name]))));
    if (layouts.product(shape) === 0) layouts.reading("shape", () => { throw new layouts.Refusal("An array with a size of 0 has nothing to move."); });
    return {from, to};
  }

  /** Return how one step reads: its name, and what a device sends. */
  function stepInWords(step, itemBytes) {
    const over = step.kind === "collective-permute" || step.kind === "slice" ? "" : ` over ${along(step)}`;
    const sent = step.sent ? `sends ${words.bytes(step.sent * itemBytes)}` : "sends nothing";
    return {name: `${step.kind}${over}`, text: `each device ${sent}; its block is then ${words.tuple(step.to.blockShape)}`};
  }

  function build(host, fields, save) {
    const change = (name) => (text) => { fields[name] = text; fields.step = "0"; draw(); save(); };
    const field = (name, label, hint) => controls.textField(label, {value: name === "from" || name === "to" ? asCode(fields[name]) : fields[name], hint, changed: change(name)});
    const board = (name, input) => controls.axesBoard(`${name === "from" ? "Before" : "After"}: which axis shards which dimension`, (entries) => {
      fields[name] = layouts.specAsLink(layoutPart.withEntries(layouts.parseSpec(fields[name]), entries));
      input.value = asCode(fields[name]);
      change(name)(fields[name]);
    });
    const texts = {
      shape: field("shape", "Shape", "sizes, such as 8, 16"), mesh: field("mesh", "Mesh", "axes and sizes, such as x:2, y:4"),
      from: field("from", "Spec before", 'P("x", None), or with partial sums P(None, unreduced={"x"})'), to: field("to", "Spec after", ""),
      devices: field("devices", "Devices, if not in order", "ids along the mesh, the last axis fastest"),
    };
    const boards = {from: board("from", texts.from.input), to: board("to", texts.to.input)};
    const dtype = controls.choice("Type", {value: fields.dtype, options: Object.keys(layouts.ITEM_BYTES).map((name) => [name, name]), changed: (name) => { fields.dtype = name; draw(); save(); }});
    const sentence = html("p", {class: "sentence", "aria-live": "polite"});
    const player = html("div", {class: "player"});
    const rest = html("div");
    const inputs = Object.fromEntries(Object.entries(texts).map(([name, {input}]) => [name, input]));
    const results = controls.results(inputs, sentence, player, rest);
    host.append(
      html("div", {class: "controls"}, texts.shape.row, texts.mesh.row, texts.from.row, boards.from.board, texts.to.row, boards.to.board, dtype.row,
        html("details", {open: fields.devices !== ""}, html("summary", {}, "Other devices, or in another order"), texts.devices.row)),
      results.element);
    let timer = null;

    function draw() {
      clearInterval(timer);
      timer = null;
      let isReadable = false;
      const problem = results.attempt(() => {
        showBoards(fields, boards);
        isReadable = true;
        const {from, to} = read(fields);
        return {from, to, steps: layouts.reading("to", () => reshards.planSteps(from, to)), itemBytes: layouts.ITEM_BYTES[fields.dtype]};
      });
      for (const {board: element} of Object.values(boards)) element.inert = !isReadable;
      if (!problem) return;
      sentence.textContent = summary(problem);
      drawPlayer(problem);
      rest.replaceChildren(...explanations(problem, fields));
    }

    /** Show the devices after a step, and the buttons that lead to the others. */
    function drawPlayer({from, steps, itemBytes}) {
      const states = [from, ...steps.map((step) => step.to)];
      const planes = from.shape.length < 3 ? 1 : states.map((state) => state.counts[0]).reduce(leastCommonMultiple, 1);
      const screen = html("figure");
      const said = html("p", {"aria-live": "polite"});
      const play = html("button", {type: "button", onclick: () => (timer ? stop() : start())}, "Play");
      const list = html("ol", {class: "steps", start: 0});
      const places = from.placements;
      const slider = controls.slider("Device", {min: 0, max: places.length - 1, value: Math.max(0, places.findIndex((p) => String(p.device) === fields.device)),
        inWords: (i) => String(places[i].device), changed: (i) => { fields.device = String(places[i].device); show(); save(); }});

      const goTo = (k) => { fields.step = String(k); show(); save(); };
      const start = () => {
        if (Number(fields.step) >= steps.length) goTo(0);
        else goTo(Number(fields.step) + 1);
        play.textContent = "Pause";
        timer = setInterval(() => (Number(fields.step) >= steps.length ? stop() : goTo(Number(fields.step) + 1)), PAUSE);
      };
      const stop = () => {
        clearInterval(timer);
        timer = null;
        play.textContent = "Play";
      };

      function show() {
        const k = Math.min(Math.max(Number(fields.step) || 0, 0), steps.length);
        const [step, state] = [steps[k - 1] ?? null, states[k]];
        const chosen = Number(slider.input.value);
        screen.replaceChildren(html("figcaption", {class: "legend"}, "Each box is a device, drawn as the whole array, with what it holds filled in. " +
          `A colour is the device that a piece came from; copies have the colour of the first device that holds them${state.spec.unreduced.length ? "; Σ is a partial sum" : step && /reduce/.test(step.kind) ? "; a sum has stripes, one for each partial sum in it" : ""}.`), stepDrawing.drawDevices(state, step, {width: player.clientWidth || 600, chosen, planes}));
        const {device, block} = state.placements[chosen];
        const sources = step ? reshards.sourcesOf(step)[chosen].map((j) => places[j].device).sort((a, b) => a - b) : [];
        said.replaceChildren(step ? `${SENTENCES[step.kind](step)} ` : "Before the first step: ", html("strong", {}, `Device ${device}`), " holds ",
          html("code", {}, `x${layouts.blockAsCode(block)}`), state.spec.unreduced.length ? ", a partial sum" : "",
          sources.length ? `, and got data from ${words.manyDevices(sources)}.` : step ? ", and got nothing." : ".");
        list.querySelectorAll("button").forEach((button, i) => (i === k ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current")));
      }

      list.append(...states.map((state, k) => {
        const {name, text} = k ? stepInWords(steps[k - 1], itemBytes) : {name: "Before", text: `each device's block is ${words.tuple(from.blockShape)}`};
        return html("li", {}, html("button", {type: "button", onclick: () => { stop(); goTo(k); }}, name), ` ${text}`);
      }));
      screen.onclick = (event) => {
        const device = event.target.closest?.("[data-devices]")?.dataset.devices;
        if (device === undefined) return;
        slider.input.value = places.findIndex((p) => String(p.device) === device);
        slider.show();
        fields.device = device;
        show();
        save();
      };
      player.replaceChildren(list, steps.length ? play : "", screen, slider.row, said);
      show();
    }

    draw();
    return {draw, stop: () => clearInterval(timer)};
  }

  const leastCommonMultiple = (a, b) => { let n = a; while (n % b) n += a; return n; };

  /** Show the boards as far as the fields can be read. */
  function showBoards(fields, boards) {
    const {shape, mesh} = layoutPart.readArray(fields);
    for (const name of ["from", "to"]) {
      const spec = layouts.reading(name, () => layouts.parseSpec(fields[name]));
      boards[name].show(shape, mesh, layoutPart.knownPart(shape, mesh, spec));
    }
  }

  /** Return what moves in sum, in a sentence or two. */
  function summary({from, to, steps, itemBytes}) {
    const sent = steps.reduce((sum, step) => sum + step.sent, 0) * itemBytes;
    const kinds = steps.filter((step) => step.kind !== "slice").map((step) => step.kind);
    if (steps.length === 0) return "Nothing moves: each device already holds its new block.";
    if (kinds.length === 0) return "Nothing is sent: each device already has its new block, and keeps only that.";
    const way = `${capitalised(words.list(counted(kinds)))}: each device sends ${words.bytes(sent)}.`;
    const others = steps.length > 1 ? ` ${otherWays(from, to, sent, itemBytes)}` : "";
    if (from.spec.unreduced.length) return way + others;
    const least = Math.max(...reshards.elementsToReceive(from, to)) * itemBytes;
    return `${way} Whatever the steps, some device has to receive at least ${words.bytes(least)}, because that much of its new block is elsewhere.${others}`;
  }

  /** Return what XLA may do instead of several steps; a search says what it can save by splitting an axis. */
  function otherWays(from, to, sent, itemBytes) {
    const split = reshards.elementsIfSplit(from, to);
    if (split === null || split * itemBytes > sent - 1) return "XLA may take other steps, and send less or more.";
    const parts = from.mesh.axes.map(({name, size}) => ({name, size, primes: reshards.primesOf(size)}))
      .filter(({primes}) => primes.length > 1).map(({name, size, primes}) => `${name} (${size}) taken as ${primes.join(" × ")}`);
    return `These steps move whole axes. With ${words.list(parts)}, ${words.bytes(split * itemBytes)} are enough, and XLA may find that way, or yet another.`;
  }

  /** Return kinds of collectives in words: `an all-gather` or `3 all-to-alls`, in the order of their first steps. */
  function counted(kinds) {
    return [...new Set(kinds)].map((kind) => {
      const count = kinds.filter((other) => other === kind).length;
      return count > 1 ? `${count} ${kind}s` : `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`;
    });
  }

  function explanations({from, to, steps, itemBytes}, fields) {
    const received = from.spec.unreduced.length ? null : reshards.elementsToReceive(from, to);
    const heads = ["Device", "Before", "After", ...(received ? ["Has to receive"] : [])];
    return [
      controls.codeBlock(asCodeOf(from, to, fields.dtype)),
      html("details", {}, html("summary", {}, "What this page assumes"),
        html("p", {}, "The steps are slices, all-gathers, all-to-alls, permutations and, for partial sums, all-reduces and reduce-scatters over whole mesh axes. Of all such ways, the page shows the one in which a device sends the fewest bytes, and then the one with the fewest collectives."),
        html("p", {}, "The bytes are those of a ring, as the notebooks count them: a device of a group of n sends (n − 1)/n of its buffer in an all-gather, a reduce-scatter or an all-to-all, twice that in an all-reduce, and its block in a permutation."),
        html("p", {}, steps.length > 1
          ? "XLA may choose another way here: this one has more than one step. It may gather before it slices, which sends more, or split an axis in two, which can send less. The last line of the code shows what it does."
          : "Where there is one step, XLA compiles the same collective, with the same bytes. The last line of the code shows it.")),
      controls.foldedTable("The same as a table", ["Step", "Collective", "Group of", "A device sends", "Its block", "Spec"],
        steps.map((step, i) => [String(i + 1), stepInWords(step, itemBytes).name, String(step.devices), words.bytes(step.sent * itemBytes), words.tuple(step.to.blockShape), layouts.specAsCode(step.to.spec)])),
      controls.foldedTable("Each device, before and after", heads, to.placements.map(({device, block}, i) =>
        [String(device), `x${layouts.blockAsCode(from.placements[i].block)}`, `x${layouts.blockAsCode(block)}`, ...(received ? [words.bytes(received[i] * itemBytes)] : [])])),
    ];
  }

  /** Return Python code that moves the array, and shows what XLA makes of it. */
  function asCodeOf(from, to, dtype) {
    const before = layouts.specAsCode(from.spec);
    const after = layouts.specAsCode(to.spec);
    if (from.spec.unreduced.length)
      return ["# in a jitted function on a mesh with Explicit axes, where y has partial sums:", `y = jax.reshard(y, ${after})`].join("\n");
    return [
      layouts.layoutAsCode(from, dtype),
      "", `after = NamedSharding(mesh, ${after})`, "y = jax.device_put(x, after)",
      "", "from shardlings import communication", "communication(jax.jit(lambda x: x, out_shardings=after), x)",
    ].join("\n");
  }

  const toLink = (fields) => ({...fields, from: shortSpec(fields.from), to: shortSpec(fields.to)});

  return {title: "From layout to layout", defaults, build, toLink, read, stepInWords};
})();
