"use strict";

/** The front page's picture: an array goes from one layout to the next, until it is paused. */
const hero = (() => {
  const {html} = drawing;
  const PAUSE = 2400;
  const SHAPE = [8, 16];
  const MESH = {axes: [{name: "x", size: 2}, {name: "y", size: 4}], devices: [0, 1, 2, 3, 4, 5, 6, 7]};
  const TOUR = ["y,x", "-,x", "x,-", "x.y,-", "-,x.y", "y,x"];

  /** Fill an element with the picture; readers who want no motion get its first step, and a button. */
  function start(root) {
    const stops = TOUR.map((text) => layouts.layoutOf(SHAPE, MESH, layouts.parseSpec(text)));
    const steps = stops.slice(1).flatMap((to, i) => reshards.planSteps(stops[i], to));
    const screen = html("figure");
    const legend = html("p", {class: "legend"}, "Each box is a device, drawn as the whole array with its part filled in. The arrows show what device 0 receives; the others receive their parts at the same time.");
    const said = html("p", {class: "sentence"});
    const button = html("button", {type: "button", onclick: () => (timer ? stop() : play())});
    const actions = html("p", {}, button);
    let at = 0;
    let timer = null;

    function show() {
      const step = steps[at];
      screen.replaceChildren(stepDrawing.drawDevices(step.to, step, {width: Math.min(root.clientWidth || 480, 560), chosen: 0}));
      const [from, to] = [step.from, step.to].map((layout) => layouts.specAsCode(layout.spec));
      const {name} = reshardPart.stepInWords(step, 4);
      said.replaceChildren(html("code", {}, from), " → ", html("code", {}, to), `: ${step.sent ? `${name}, ${words.bytes(step.sent * 4)} from each device` : "each device keeps a part of what it has"}`);
      const fields = {shape: SHAPE.join(","), mesh: "x:2,y:4", from: layouts.specAsLink(step.from.spec), to: layouts.specAsLink(step.to.spec), step: "1"};
      link.setAttribute("href", `playground.html${links.encode("reshard", fields)}`);
    }
    const link = html("a", {href: "playground.html"}, "Change it in the playground");
    const play = () => {
      button.textContent = "Pause";
      timer = setInterval(() => { at = (at + 1) % steps.length; show(); }, PAUSE);
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      button.textContent = "Play";
    };

    actions.append(" ", link);
    root.replaceChildren(screen, said, legend, actions);
    show();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) stop();
    else play();
  }

  return {start};
})();
