/* Secant to tangent: a difference quotient of chapter 01, its error, and what is left of
   the curve at that scale. f(3, y) = sin 3 - y**3 at y = 5, where the slope is -75. */
"use strict";

{
  const [AT, SLOPE] = [5, -75];
  const ROUND = { float64: number => number, float32: Math.fround };
  const EPS = { float64: 2 ** -52, float32: 2 ** -23 };
  const LOOK = { forward: ["forward", "9 4"], central: ["backward", "5 3"] };

  /** The function, rounded to the precision after every operation. */
  const f = (y, round) => round(round(Math.sin(3)) - round(y ** 3));

  /** A quotient with the step h, and the two points that its secant goes through. */
  function measure(method, precision, step) {
    const round = ROUND[precision];
    const h = round(step);
    const right = round(AT + h);
    const left = method === "forward" ? AT : round(AT - h);
    const rise = round(f(right, round) - f(left, round));
    const run = method === "forward" ? h : round(2 * h);
    const quotient = round(rise / run);
    return { left, right, rise, quotient, error: Math.abs(quotient - SLOPE) };
  }

  /** The two parts of the error that the page predicts: g'' = -30, g''' = -6. */
  function predict(method, precision, h) {
    const gaps = EPS[precision] * Math.abs(f(AT, ROUND.float64));
    return method === "forward" ? [15 * h, gaps / h] : [h ** 2, gaps / (2 * h)];
  }

  /** As Python prints it: 1.5e-03; with the minus sign of a text. */
  const e = (number, digits) =>
    number.toExponential(digits).replace(/e(.)(\d)$/, "e$10$2").replace(/^-/, "\u2212");
  const fixed = number => number.toFixed(6).replace("-", "\u2212");

  // 1e-16, 2e-16, 5e-16, 1e-15, ... 1
  const STEPS = [...Array(49).keys()].map(i => Number(`${[1, 2, 5][i % 3]}e${Math.floor(i / 3) - 16}`));

  customElements.define("live-secant", class extends LiveFigure {
    build() {
      this.curve = this.picture("secant-curve", 340, 260);
      this.errors = this.picture("secant-error", 340, 260);
      this.panel();
      const label = append(this.controls, "label", {}, "Step h");
      this.slider = append(label, "input", { type: "range", min: 0, max: STEPS.length - 1, value: STEPS.length - 1 });
      this.choice("method", "Quotient", { forward: "forward", central: "central" });
      this.choice("precision", "Precision", { float64: "float64", float32: "float32" });
    }

    draw() {
      const method = this.value("method");
      const precision = this.value("precision");
      const h = STEPS[this.slider.value];
      const seen = measure(method, precision, h);
      const [cut, lost] = predict(method, precision, h);
      this.slider.setAttribute("aria-valuetext", e(h, 0));
      // A line may break behind a hyphen, and not behind a minus.
      this.status.textContent = (
        `h = ${e(h, 0)}: y moves by ${e(seen.right - seen.left, 4)}, f by ${e(seen.rise, 1)}.\n` +
        `The quotient is ${fixed(seen.quotient)}, off by ${e(seen.error, 1)}.\n` +
        `Predicted: truncation ${e(cut, 1)}, round-off ${e(lost, 1)}.`
      ).replaceAll("e-", "e\u2212");
      this.drawCurve(method, precision, h, seen);
      this.drawErrors(method, precision, h, seen.error);
    }

    /** The window is 5 - 1.3 h to 5 + 1.3 h, so that the tangent always looks the same. */
    drawCurve(method, precision, h, { left, right, quotient }) {
      const round = ROUND[precision];
      const [name, dash] = LOOK[method];
      const x = y => 170 + 125 * ((y - AT) / h);
      const z = y => 118 - 0.88 * ((f(y, round) - f(AT, round)) / h);
      const svg = this.curve;
      svg.replaceChildren();
      svg.setAttribute("aria-label", `The curve near y = 5, at the scale of h, its tangent with slope \u221275, and a line with the quotient as its slope, ${fixed(quotient)}.`);
      const frame = { x: 8, y: 8, width: 324, height: 220 };
      append(svg, "rect", { ...frame, fill: "none", stroke: "currentColor", "stroke-opacity": "0.3" });
      for (const [label, at] of [["5 \u2212 h", 45], ["y = 5", 170], ["5 + h", 295]]) {
        append(svg, "path", { d: `M${at} 8v220`, stroke: "currentColor", "stroke-opacity": "0.15" });
        append(svg, "text", { x: at, y: 246, "text-anchor": "middle" }, label);
      }
      const plot = append(svg, "svg", { ...frame, viewBox: "8 8 324 220", fill: "none", "stroke-width": 2 });
      const points = [...Array(163).keys()].map(i => 8 + 2 * i)
        .map(px => `${px} ${z(round(AT + h * (px - 170) / 125)).toFixed(1)}`);
      append(plot, "polyline", { points: points.join(" "), stroke: colour("plain") });
      const line = (slope, at) => "M" + [8, 332]
        .map(end => `${end} ${(z(at) - 0.88 * slope * (end - x(at)) / 125).toFixed(1)}`).join("L");
      append(plot, "path", { d: line(SLOPE, AT), stroke: colour("right") });
      append(plot, "path", { d: line(quotient, left), stroke: colour(name), "stroke-dasharray": dash });
      for (const y of [left, right])
        append(plot, "circle", { cx: x(y), cy: z(y), r: 4.5, fill: colour(name) });
      append(svg, "path", { d: "M186 28h24", stroke: colour("right"), "stroke-width": 2 });
      append(svg, "text", { x: 216, y: 32 }, "tangent \u221275");
      append(svg, "path", { d: "M186 46h24", stroke: colour(name), "stroke-width": 2, "stroke-dasharray": dash });
      append(svg, "text", { x: 216, y: 50 }, `quotient ${quotient.toFixed(2).replace("-", "\u2212")}`);
    }

    drawErrors(method, precision, h, error) {
      const [name] = LOOK[method];
      const x = step => 332 + 18 * Math.log10(step);
      const y = size => 228 - 220 / 13 * (Math.log10(Math.max(size, 1e-10)) + 10);
      const svg = this.errors;
      svg.replaceChildren();
      svg.setAttribute("aria-label", `Error of the quotient against the step, both on log scales, like a V; a ring marks the step ${e(h, 0)} with the error ${e(error, 1)}.`);
      for (const step of [1e-16, 1e-12, 1e-8, 1e-4, 1]) {
        append(svg, "path", { d: `M${x(step)} 8v220`, stroke: "currentColor", "stroke-opacity": "0.15" });
        append(svg, "text", { x: x(step), y: 246, "text-anchor": step < 1 ? "middle" : "end" }, step < 1 ? e(step, 0) : "h = 1");
      }
      for (const size of [1e-9, 1e-6, 1e-3, 1, 1e3]) {
        append(svg, "path", { d: `M44 ${y(size).toFixed(1)}h288`, stroke: "currentColor", "stroke-opacity": "0.15" });
        append(svg, "text", { x: 40, y: y(size) + (size > 1 ? 10 : 4), "text-anchor": "end" }, size === 1 ? "1" : e(size, 0));
      }
      const all = STEPS.map(step => [x(step), y(measure(method, precision, step).error)]);
      const predicted = STEPS.map(step => { const [a, b] = predict(method, precision, step); return [x(step), y(a + b)]; });
      const path = points => points.map(point => point.map(c => c.toFixed(1)).join(" ")).join(" ");
      const plot = append(svg, "svg", { x: 44, y: 8, width: 288, height: 220, viewBox: "44 8 288 220", fill: "none" });
      append(plot, "polyline", { points: path(predicted), stroke: "currentColor" });
      append(svg, "polyline", { points: path(all), fill: "none", stroke: colour(name), "stroke-opacity": "0.5" });
      for (const [cx, cy] of all) append(svg, "circle", { cx, cy, r: 2, fill: colour(name) });
      append(svg, "circle", { cx: x(h), cy: y(error), r: 6, stroke: "currentColor", "stroke-width": 2, fill: colour(name) });
      append(svg, "text", { x: 52, y: 204 }, "size of the error");
      append(svg, "text", { x: 52, y: 220 }, `${method}, ${precision}`);
    }
  });
}
