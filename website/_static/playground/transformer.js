"use strict";

/**
 * A step of training a transformer on a mesh: memory, bytes sent and arithmetic of each device.
 *
 * The program is the simplest that does all four kinds of parallelism:
 *
 * - **data**: devices hold the same weights, and gradients are summed by an all-reduce.
 * - **FSDP**: the batch is sharded, and so is one dimension of each weight. Layers are gathered when
 *   they are needed, forwards and again backwards, and gradients are reduce-scattered.
 * - **tensor**: heads and hidden units are sharded; attention and MLP each end with an all-reduce.
 * - **sequence**: the tokens of a sequence are sharded, and attention gathers keys and values.
 *
 * Each layer is in `jax.checkpoint`: only its input is kept, and the layer is computed again in the
 * backward pass. A test compiles such a layer, and compares bytes, operations and memory.
 *
 * Sources: "Training" in the Scaling Book (https://jax-ml.github.io/scaling-book/training/) for what
 * is sharded and sent; Chen et al. 2016, arXiv:1604.06174, for checkpoints.
 *
 * @typedef {{layers: number, width: number, hidden: number, heads: number, kvHeads: number,
 *     headSize: number, vocabulary: number, experts: number, active: number}} Model
 * @typedef {{data: number, fsdp: number, tensor: number, sequence: number}} Degrees
 * @typedef {{model: Model, degrees: Degrees, batch: number, length: number, itemBytes: number}} Run
 *     `batch` is in sequences, and `length` is a sequence's in tokens.
 */
const transformers = (() => {
  const MOMENT_BYTES = 8;

  const MODELS = {
    "Llama 2 7B": {layers: 32, width: 4096, hidden: 11008, heads: 32, kvHeads: 32, headSize: 128, vocabulary: 32000, experts: 1, active: 1, source: "https://arxiv.org/abs/2307.09288"},
    "Llama 3 70B": {layers: 80, width: 8192, hidden: 28672, heads: 64, kvHeads: 8, headSize: 128, vocabulary: 128256, experts: 1, active: 1, source: "https://arxiv.org/abs/2407.21783"},
    "Mixtral 8x7B": {layers: 32, width: 4096, hidden: 14336, heads: 32, kvHeads: 8, headSize: 128, vocabulary: 32000, experts: 8, active: 2, source: "https://arxiv.org/abs/2401.04088"},
  };

  /** Return the numbers of parameters: of a layer's matrices and its replicated rest, and of all. */
  function countParameters({layers, width, hidden, heads, kvHeads, headSize, vocabulary, experts}) {
    const attention = 2 * width * heads * headSize + 2 * width * kvHeads * headSize;
    const matrices = attention + experts * 3 * width * hidden;
    const small = 2 * width + (experts > 1 ? width * experts : 0);
    const embeddings = 2 * vocabulary * width;
    return {matrices, small, embeddings, all: layers * (matrices + small) + embeddings + width};
  }

  /**
   * Return why a run cannot be sharded like that, and which field to change, or null.
   *
   * @returns {?{field: string, message: string}}
   */
  function explainMisfit({model, degrees, batch, length}) {
    const {data, fsdp, tensor, sequence} = degrees;
    const devices = data * fsdp * tensor * sequence;
    const SHARDING = {batch: "Data and FSDP", sequence: "Sequence", fsdp: "FSDP", tensor: "Tensor"};
    const refuse = (field, message) => ({field, message});
    if (devices > layouts.MAX_DEVICES)
      return refuse(Object.keys(degrees).reduce((a, b) => degrees[b] > degrees[a] ? b : a),
        `${data} × ${fsdp} × ${tensor} × ${sequence} = ${words.count(devices)} devices; this page goes up to ${layouts.MAX_DEVICES}.`);
    const rules = [
      ["batch", "the batch", batch, "sequence", data * fsdp], ["sequence", "a sequence", length, "token", sequence],
      ["fsdp", "the width", model.width, "", fsdp], ["tensor", "the heads", model.heads, "", tensor],
      ["tensor", "the heads of keys and values", model.kvHeads, "", tensor], ["tensor", "the hidden size", model.hidden, "", tensor],
      ["tensor", "the vocabulary", model.vocabulary, "", tensor],
    ];
    for (const [field, what, size, unit, count] of rules)
      if (size % count)
        return refuse(field, `${SHARDING[field]} sharding gives ${what} ${count} shards, but the size, ${words.count(size)}${unit && ` ${unit}${size === 1 ? "" : "s"}`}, is not a multiple of ${count}. An array's shards have equal sizes in JAX.`);
    return null;
  }

  /** Return the tokens whose activations a device holds. */
  const tokensOf = ({degrees: {data, fsdp, sequence}, batch, length}) => batch * length / (data * fsdp * sequence);

  /**
   * Return what a device's memory holds, in bytes.
   *
   * @param {Run} run
   * @returns {{name: string, formula: string, bytes: number}[]}
   */
  function memoryOf(run) {
    const {model, degrees: {fsdp, tensor, sequence}, itemBytes} = run;
    const parameters = parametersOf(run);
    const tokens = tokensOf(run);
    const tokensInWords = `${words.count(tokens)} token${tokens === 1 ? "" : "s"}`;
    const {width, heads, kvHeads, headSize, hidden, active, layers} = model;
    const inLayer = 4 * width + (2 * heads * headSize + 2 * kvHeads * headSize * sequence + 3 * active * hidden) / tensor;
    const gathered = fsdp > 1 ? itemBytes * (countParameters(model).matrices / tensor + countParameters(model).small) : 0;
    return [
      {name: "weights", formula: `${words.count(parameters)} parameters × ${itemBytes}`, bytes: parameters * itemBytes},
      {name: "gradients", formula: `${words.count(parameters)} × ${itemBytes}`, bytes: parameters * itemBytes},
      {name: "Adam's moments", formula: `${words.count(parameters)} × 2 × 4`, bytes: parameters * MOMENT_BYTES},
      {name: "layers' inputs", formula: `${layers} layers × ${tokensInWords} × ${words.count(width)} × ${itemBytes}`, bytes: layers * tokens * width * itemBytes},
      {name: "one layer's values", formula: `${tokensInWords} × ${words.count(inLayer)} × ${itemBytes}`, bytes: tokens * inLayer * itemBytes},
      {name: "one gathered layer", formula: fsdp > 1 ? `a layer's weights / ${tensor}` : "no FSDP", bytes: gathered},
    ];
  }

  /** Return the number of parameters on a device. */
  function parametersOf({model, degrees: {fsdp, tensor}}) {
    const {matrices, small, embeddings} = countParameters(model);
    return (model.layers * matrices + embeddings) / (fsdp * tensor) + (model.layers * small + model.width) / fsdp;
  }

  /**
   * Return what a device sends in one step, by the kind of parallelism, in bytes.
   *
   * @param {Run} run
   * @returns {{name: string, kind: string, formula: string, bytes: number, axes: number}[]}  `axes` is the
   *     number of mesh axes that it runs over, which share the work in a torus.
   */
  function sentBytes(run) {
    const {model, degrees: {data, fsdp, tensor, sequence}, itemBytes} = run;
    const mine = parametersOf(run) * itemBytes;
    const tokens = tokensOf(run);
    const values = tokens * model.width * itemBytes;
    const keys = tokens * sequence * 2 * model.kvHeads * model.headSize / tensor * itemBytes;
    const ring = (n) => (n - 1) / n;
    const share = (n) => `(${n} − 1)/${n}`;
    const replicas = data * sequence;
    return [
      {name: "FSDP", kind: "all-gather", formula: `weights, twice: 2 × ${share(fsdp)} × ${words.bytes(mine * fsdp)}`, bytes: 2 * ring(fsdp) * mine * fsdp, axes: 1},
      {name: "FSDP", kind: "reduce-scatter", formula: `gradients: ${share(fsdp)} × ${words.bytes(mine * fsdp)}`, bytes: ring(fsdp) * mine * fsdp, axes: 1},
      {name: sequence > 1 ? "data and sequence" : "data", kind: "all-reduce", formula: `gradients: 2 × ${share(replicas)} × ${words.bytes(mine)}`, bytes: 2 * ring(replicas) * mine, axes: data > 1 && sequence > 1 ? 2 : 1},
      {name: "tensor", kind: "all-reduce", formula: `${model.layers} layers × 5 × 2 × ${share(tensor)} × ${words.bytes(values)}`, bytes: model.layers * 5 * 2 * ring(tensor) * values, axes: 1},
      {name: "sequence", kind: "all-gather", formula: `keys and values, twice: ${model.layers} layers × 2 × ${share(sequence)} × ${words.bytes(keys)}`, bytes: model.layers * 2 * ring(sequence) * keys, axes: 1},
      {name: "sequence", kind: "reduce-scatter", formula: `their gradients: ${model.layers} layers × ${share(sequence)} × ${words.bytes(keys)}`, bytes: model.layers * ring(sequence) * keys, axes: 1},
    ];
  }

  /** Return the operations of a device in one step: four passes over layers, three over the last matmul. */
  function flopsOf({model, degrees, batch, length}) {
    const {layers, width, hidden, heads, kvHeads, headSize, vocabulary, active} = model;
    const tokens = batch * length;
    const matrices = 2 * width * heads * headSize + 2 * width * kvHeads * headSize + active * 3 * width * hidden;
    const layer = 4 * tokens * (2 * matrices + 4 * length * heads * headSize);
    const devices = layouts.product(Object.values(degrees));
    return {layer: layer / devices, all: (layers * layer + 3 * 2 * tokens * vocabulary * width) / devices};
  }

  /**
   * Return a run on a machine: whether it fits, and its times in seconds.
   *
   * @param {Run} run
   * @param {{flops: number, link: number, torus: number, capacity: number}} machine
   */
  function timesOf(run, machine) {
    const total = (terms) => terms.reduce((sum, {bytes}) => sum + bytes, 0);
    const loads = sentBytes(run).map(({bytes, axes}) => ({bytes: machine.torus ? bytes / axes : bytes}));
    return {memory: total(memoryOf(run)), fits: total(memoryOf(run)) <= machine.capacity,
      computing: flopsOf(run).all / machine.flops, communicating: total(loads) / machine.link};
  }

  return {MODELS, countParameters, explainMisfit, tokensOf, memoryOf, parametersOf, sentBytes, flopsOf, timesOf};
})();
