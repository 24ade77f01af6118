"use strict";

/**
 * Counts, bytes and times in words, as the notebooks write them
 * (`shardlings/programs/numbers_in_words.py`).
 */
const words = (() => {
  const SCALES = [["quadrillion", 1e15], ["trillion", 1e12], ["billion", 1e9], ["million", 1e6]];
  const BINARY_UNITS = ["KiB", "MiB", "GiB", "TiB"];
  const EXACT_BYTES = 100_000;
  const MAX_PARTS = 12;

  /** Return a count such as `2,816` or `137 billion`. */
  function count(number) {
    for (const [word, factor] of SCALES)
      if (number >= (word === "million" ? 10 : 1) * factor) return `${rounded(number / factor)} ${word}`;
    return whole(number);
  }

  /** Return a number of bytes with its unit, such as `2,816 bytes` or `128 MiB`. */
  function bytes(number) {
    if (number < EXACT_BYTES) return `${whole(number)} ${number === 1 ? "byte" : "bytes"}`;
    let power = 1; // the largest unit in which the number has two digits
    while (power < BINARY_UNITS.length && number >= 10 * 1024 ** (power + 1)) power += 1;
    const amount = number / 1024 ** power;
    const decimals = [100, 10, 1].filter((limit) => amount < limit).length;
    return `${format(amount, {maximumFractionDigits: decimals})} ${BINARY_UNITS[power - 1]}`;
  }

  /** Return a time such as `3.36 ms` or `under 1 µs`. */
  function time(seconds) {
    for (const [unit, factor] of [["s", 1], ["ms", 1e3], ["µs", 1e6]])
      if (seconds * factor >= 1) return `${rounded(seconds * factor)} ${unit}`;
    return seconds === 0 ? "0 s" : "under 1 µs";
  }

  /** Return three significant digits, and never an exponent: `1,000` for 999.9. */
  function rounded(number) {
    return format(number, {maximumSignificantDigits: 3});
  }

  const whole = (number) => format(number, {maximumFractionDigits: 0});

  /** Return a number as Python rounds it: by all of its digits, where `toLocaleString` takes the shortest ones. */
  function format(number, options) {
    return new Intl.NumberFormat("en-US", {...options, roundingMode: "halfEven"}).format(number.toPrecision(60));
  }

  /** Return `1, 2 and 3`. */
  function list(items) {
    return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
  }

  /** Return a Python tuple: `(8,)` or `(8, 4)`. */
  function tuple(items) {
    return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
  }

  /** Return `device 3`, `devices 0 to 7`, or `devices 0, 2, 4 and 6`. */
  function devices(ids) {
    if (ids.length === 1) return `device ${ids[0]}`;
    const first = ids[0];
    if (ids.length > 2 && ids.every((id, i) => id === first + i)) return `devices ${first} to ${ids.at(-1)}`;
    return `devices ${list(ids)}`;
  }

  /** Return devices as `devices` does, but shorter if there are many: `devices 0 to 3 and 7`. */
  function manyDevices(ids) {
    const runs = [];
    for (const id of ids) {
      if (runs.length && id === runs.at(-1).at(-1) + 1) runs.at(-1).push(id);
      else runs.push([id]);
    }
    const parts = runs.flatMap((run) => (run.length > 2 ? `${run[0]} to ${run.at(-1)}` : run));
    if (parts.length > MAX_PARTS) return `${ids.length} devices from ${ids[0]} to ${ids.at(-1)}`;
    return `device${ids.length === 1 ? "" : "s"} ${list(parts)}`;
  }

  return {manyDevices, count, bytes, time, rounded, list, tuple, devices};
})();
