/* The noisy square root of chapter 11: z = sqrt(x**2 u), u from U(0.9, 1.1), with the
   stop-gradient trick nowhere, early or last; value and slope over many draws. */
"use strict";

{
  /** Draws from [0, 1) that a seed repeats: a generator by Tommy Ettinger, mulberry32. */
  function* uniform(seed) {
    for (;;) {
      seed = (seed + 0x6D2B79F5) | 0;
      let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      yield ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    }
  }

  /** The value, and the slopes of root, noise and square that the chain rule multiplies. */
  function differentiate(attempt, x, u) {
    const y = x ** 2;
    const value = Math.sqrt(y * u);
    const root = 1 / (2 * (attempt === "last" ? Math.sqrt(y) : value));
    const noise = attempt === "nothing" ? u : 1;
    return { value, factors: [root, noise, 2 * x], slope: root * noise * 2 * x };
  }

  const text = number => number.toFixed(4).replace("-", "\u2212");

  function moments(numbers) {
    const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
    const square = numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0);
    return [mean, Math.sqrt(square / numbers.length)];
  }

  customElements.define("live-noise", class extends LiveFigure {
    build() {
      this.spread = this.picture("noise", 340, 260);
      this.panel();
      this.choice("attempt", "Trick", { nothing: "nothing", early: "early", last: "last" });
      this.choice("x", "x", { "-2": "\u22122", "-1": "\u22121", "+1": "1" });
      this.button("Draw again", () => this.take(1));
      this.button("Draw 1000", () => this.take(1000));
      this.button("Start over", () => this.restart());
      this.restart();
      this.take(999);
    }

    restart() {
      this.generator = uniform(1);
      this.draws = [];
      this.take(1);
    }

    take(count) {
      for (let i = 0; i < count; i++) this.draws.push(0.9 + 0.2 * this.generator.next().value);
    }

    draw() {
      const attempt = this.value("attempt");
      const x = Number(this.value("x"));
      const all = this.draws.map(u => differentiate(attempt, x, u));
      const last = all.at(-1);
      const [root, noise, square] = last.factors.map(text);
      const rows = [["value", "forward", Math.abs(x)], ["slope", "backward", Math.sign(x)]]
        .map(([name, colour, clean]) => ({ name, colour, clean, numbers: all.map(one => one[name]) }));
      const [value, slope] = rows.map(row => moments(row.numbers));
      this.status.textContent =
        `u = ${text(this.draws.at(-1))}, value ${text(last.value)}, slope ${text(last.slope)}\n` +
        `= root ${root} \u00b7 noise ${noise} \u00b7 square ${square}.\n` +
        `Mean of ${all.length}: value ${text(value[0])}, slope ${text(slope[0])}.\n` +
        `Spread: value ${text(value[1])}, slope ${text(slope[1])}.`;
      this.drawSpread(rows, `${attempt}, x = ${text(x).replace(".0000", "")}`);
    }

    /** Two histograms over one axis: each number as a multiple of its clean one. */
    drawSpread(rows, title) {
      const svg = this.spread;
      const x = ratio => 170 + 2400 * (ratio - 1);
      svg.replaceChildren();
      svg.setAttribute("aria-label", `Histograms of value and slope over the draws, ${title}, each around the clean number.`);
      append(svg, "text", { x: 170, y: 14, "text-anchor": "middle" }, title);
      rows.forEach(({ name, colour: key, clean, numbers }, row) => {
        const ground = 110 + 116 * row;
        const bins = Array(31).fill(0);
        for (const number of numbers) bins[Math.round(15 + 250 * (number / clean - 1))]++;
        const unit = 76 / Math.max(...bins);
        bins.forEach((count, i) => {
          if (count) append(svg, "rect", { x: x(0.938 + 0.004 * i) + 0.5, y: ground - unit * count, width: 8.6, height: unit * count, fill: colour(key) });
        });
        append(svg, "path", { d: `M14 ${ground}h312`, stroke: "currentColor" });
        append(svg, "path", { d: `M170 ${ground - 82}v88`, stroke: colour("right"), "stroke-width": 2, "stroke-dasharray": "6 3" });
        for (const ratio of [0.95, 1, 1.05])
          append(svg, "text", { x: x(ratio), y: ground + 20, "text-anchor": "middle" }, (ratio * clean).toFixed(2).replace("-", "\u2212"));
        append(svg, "text", { x: 8, y: ground - 70 }, name);
        append(svg, "circle", { cx: x(numbers.at(-1) / clean), cy: ground, r: 5, fill: colour(key), stroke: "currentColor", "stroke-width": 2 });
      });
    }
  });
}
