"use strict";

/** The roofline of communication: operations a second against operations for each byte sent. */
const roofline = (() => {
  const {svg, picture} = drawing;
  const [WIDTH, HEIGHT] = [460, 250];
  const BOX = {left: 62, right: 14, top: 14, bottom: 42};

  /**
   * Draw the roof of a machine, the way that a point took, and points.
   *
   * @param {{flops: number, link: number, name: string}} machine
   * @param {{flops: number, bytes: number, repeats: number, label: string, chosen: boolean}[]} points
   *     `flops` are a device's share of the matmul; it computes `repeats` times as many.
   * @param {{flops: number, bytes: number, repeats: number}[]} trail  Where the chosen point was before.
   */
  function draw(machine, points, trail) {
    const ridge = machine.flops / machine.link;
    const reached = ({flops, bytes, repeats}) => Math.min(machine.flops / repeats, bytes ? machine.link * flops / bytes : Infinity);
    const intensities = [ridge, ...points.filter(({bytes}) => bytes > 0).map(({flops, bytes}) => flops / bytes)];
    const [low, high] = [Math.min(...intensities) / 8, Math.max(...intensities) * 8].map(Math.log10);
    const [bottom, top] = [Math.min(Math.log10(machine.link) + low, ...points.map((point) => Math.log10(reached(point)) - 0.25)), Math.log10(machine.flops) + 0.25];
    const x = (intensity) => BOX.left + (Math.log10(intensity) - low) / (high - low) * (WIDTH - BOX.left - BOX.right);
    const y = (speed) => HEIGHT - BOX.bottom - (Math.log10(speed) - bottom) / (top - bottom) * (HEIGHT - BOX.top - BOX.bottom);
    const at = (point) => [point.bytes ? x(point.flops / point.bytes) : WIDTH - BOX.right, y(reached(point))];
    const powers = (from, to) => Array.from({length: Math.max(0, Math.floor(to) - Math.ceil(from) + 1)}, (_, i) => Math.ceil(from) + i);
    const spaced = (all, most) => all.filter((_, i) => i % Math.ceil(all.length / most) === 0);
    const words_ = points.map((point) => `${point.label}: ${point.bytes ? `${words.count(point.flops / point.bytes)} useful operations for each byte` : "nothing is sent"}, at most ${words.count(reached(point))} a second`);
    return picture(WIDTH, HEIGHT, `The roofline of ${machine.name}; its ridge is at ${words.count(ridge)} operations for each byte sent. ${words_.join("; ")}.`,
      svg("path", {class: "axes", d: `M${BOX.left},${BOX.top}V${HEIGHT - BOX.bottom}H${WIDTH - BOX.right}`}),
      svg("path", {class: "roof", d: `M${x(10 ** low)},${y(machine.link * 10 ** low)}L${x(ridge)},${y(machine.flops)}H${WIDTH - BOX.right}`}),
      svg("path", {class: "ridge", d: `M${x(ridge)},${y(machine.flops)}V${HEIGHT - BOX.bottom}`}),
      spaced(powers(low, high), 6).map((power) => svg("text", {class: "muted", x: x(10 ** power), y: HEIGHT - BOX.bottom + 14}, shortCount(10 ** power))),
      spaced(powers(bottom, top), 5).map((power) => svg("text", {class: "muted end", x: BOX.left - 6, y: y(10 ** power) + 4}, shortCount(10 ** power))),
      svg("text", {class: "muted", x: (WIDTH + BOX.left) / 2, y: HEIGHT - 8}, "useful operations for each byte sent"),
      svg("text", {class: "muted", x: 12, y: HEIGHT / 2, transform: `rotate(-90 12 ${HEIGHT / 2})`}, "useful operations a second"),
      trail.filter(({bytes}) => bytes > 0).map((point, i) => {
        const [u, v] = at(point);
        return u > BOX.left && u < WIDTH - BOX.right && v < HEIGHT - BOX.bottom ? svg("circle", {class: "trail", cx: u, cy: v, r: 3, opacity: 0.2 + 0.6 * i / trail.length}) : "";
      }),
      points.map((point) => svg("circle", {class: point.chosen ? "point chosen" : "point", cx: at(point)[0], cy: at(point)[1], r: point.chosen ? 7 : 4}, svg("title", {}, point.label))));
  }

  function shortCount(number) {
    for (const [letter, factor] of [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
      if (number >= factor) return `${number / factor} ${letter}`;
    return String(Number(number.toPrecision(1)));
  }

  return {draw};
})();
