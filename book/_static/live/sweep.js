/* Forward and reverse mode on the graph of an expression, step by step. The numbers are those
   of utils.forward_mode.trace and utils.reverse_mode.trace. Attributes: mode, expression. */
"use strict";

(() => {
  const EXPRESSIONS = {
    running: {
      title: "sin(x) - y**3",
      inputs: { x: 3, y: 5 },
      lines: ["v1 = sin(x)", "v2 = y ** 3", "v3 = v1 - v2"],
      rows: ["x y", "v1 v2", "v3"], // of the drawing
    },
    twice: {
      title: "x1*x2 + sin(x1)",
      inputs: { x1: 2, x2: 3 },
      lines: ["v1 = x1 * x2", "v2 = sin(x1)", "v3 = v1 + v2"],
      rows: ["x1 x2", "v2 v1", "v3"],
    },
    doublings: {
      title: "b = a + a, c = b + b",
      inputs: { a: 1 },
      lines: ["b = a + a", "c = b + b"],
      rows: ["a", "b", "c"],
    },
    shared: {
      title: "m*sin(m), m = x*y",
      inputs: { x: 0.5, y: 3 },
      lines: ["m = x * y", "v1 = sin(m)", "v2 = m * v1"],
      rows: ["x y", "m", ". v1", "v2"],
    },
    neuron: {
      title: "(tanh(w*x + b) - 1)**2",
      inputs: { w: 0.5, x: 2, b: -0.5 },
      lines: ["v1 = w * x", "v2 = v1 + b", "v3 = tanh(v2)", "v4 = v3 - 1", "v5 = v4 ** 2"],
      rows: ["w x", "v1 b", "v2", "v3", "v4", "v5"],
    },
  };

  // Of each operation the value; then for each argument the partial derivative
  // and how it is written. All take the arguments, and after them the result.
  const ONE = [() => 1, () => "1"];
  const OPERATIONS = {
    "+": [(a, b) => a + b, ONE, ONE],
    "-": [(a, b) => a - b, ONE, [() => -1, () => factor(-1)]],
    "*": [(a, b) => a * b, [(a, b) => b, (a, b) => b], [a => a, a => a]],
    "**": [(a, n) => a ** n, [(a, n) => n * a ** (n - 1),
      (a, n) => `${n} * ${a}${n > 2 ? ` ** ${n - 1}` : ""}`]],
    sin: [Math.sin, [Math.cos, a => `cos(${a})`]],
    tanh: [Math.tanh, [(a, y) => 1 - y * y, (a, y) => `(1 - ${y} ** 2)`]],
  };

  // Letters need more contrast than lines.
  const ink = name => `color-mix(in srgb, ${colour(name)} 80%, currentColor)`;
  const text = x => `${+x.toPrecision(4)}`.replace("-", "\u2212");
  const factor = x => (x < 0 ? `(${text(x)})` : text(x));
  const list = words => words.join(", ").replace(/, ([^,]*)$/, " and $1");

  function parse(line) {
    const [name, expression] = line.split(" = ");
    const call = expression.match(/^(\w+)\((\w+)\)$/);
    const [a, sign, b] = expression.split(" ");
    const [value, ...partials] = OPERATIONS[call ? call[1] : sign];
    return { name, line, value, partials, args: call ? [call[2]] : [a, b] };
  }

  /** The steps of a sweep: what is said, marked and known after each. */
  function sweep({ inputs, lines }, along) {
    const steps = [], known = {}, names = Object.keys(inputs);
    function step(said, node, edges = []) {
      steps.push({ said, node, edges, known: structuredClone(known) });
    }
    const value = arg => (known[arg] ? known[arg].value : +arg);

    for (const name of names) {
      known[name] = { value: inputs[name] };
      if (along) known[name].tangent = +(name === along);
    }
    const given = names.map(name => `${name} = ${text(inputs[name])}`);
    const others = names.length > 1 ? ", that of the others 0" : "";
    step([`${list(given)}.`, along
      ? `The tangent of ${along} is 1${others}.`
      : "First comes the run. All values are kept."]);

    const nodes = lines.map(parse);
    for (const node of nodes) {
      const { name, line, partials, args } = node;
      const values = args.map(value);
      values.push(node.value(...values));
      known[name] = { value: values.at(-1) };
      // The arguments that are no constants, with what the chain rule needs.
      node.uses = args.map((arg, i) => ({
        arg,
        i,
        partial: partials[i]?.[0](...values),
        written: partials[i]?.[1](...args, name),
      })).filter(({ arg }) => known[arg]);
      const said = [`${line} = ${text(values.at(-1))}`];
      if (along) {
        const rule = node.uses.map(({ arg, written }) =>
          `${written} * tangent of ${arg}`);
        const terms = node.uses.map(({ arg, partial }) =>
          `${factor(partial)} * ${factor(known[arg].tangent)}`);
        const tangent = node.uses.reduce((sum, { arg, partial }) =>
          sum + partial * known[arg].tangent, 0);
        known[name].tangent = tangent;
        said.push(`tangent of ${name} = ${rule.join(" + ")} = ` +
          `${terms.join(" + ")} = ${text(tangent)}`);
      }
      step(said, name, node.uses.map(({ i }) => [name, i]));
    }
    const result = known[nodes.at(-1).name];
    if (along) {
      steps.at(-1).said.push(
        `One run, one slope: ${text(result.tangent)} along ${along}.`);
      return steps;
    }

    result.adjoint = 1;
    step(["Now the walk back. It begins at the result.",
      `adjoint of ${nodes.at(-1).name} = 1`], nodes.at(-1).name);
    const receivers = nodes.flatMap(({ uses }) => uses.map(({ arg }) => arg));
    const count = {};
    for (const { name, uses } of nodes.reverse()) {
      const { adjoint } = known[name];
      for (const { arg, i, partial, written } of uses) {
        const before = known[arg].adjoint, term = adjoint * partial;
        known[arg].adjoint = (before ?? 0) + term;
        count[arg] = (count[arg] ?? 0) + 1;
        const total = receivers.filter(receiver => receiver === arg).length;
        const which = total > 1 ? `, term ${count[arg]} of ${total}` : "";
        const said = [`${name} hands back to ${arg}${which}.`,
          `adjoint of ${arg} += adjoint of ${name} * ${written} = ` +
            `${factor(adjoint)} * ${factor(partial)} = ${text(term)}`];
        if (before !== undefined)
          said.push(`Sum of the terms: ${text(before)} + ${factor(term)} = ` +
            text(known[arg].adjoint));
        step(said, arg, [[name, i]]);
      }
    }
    const slopes = names.map(name =>
      `${text(known[name].adjoint)} along ${name}`);
    steps.at(-1).said.push(`One walk, all slopes: ${list(slopes)}.`);
    return steps;
  }

  const WIDTH = 340, BOX = 132, HEIGHT = 56, PITCH = 82;
  const ROWS = {
    value: ["v", "forward"], tangent: ["v\u0307", "plain"], adjoint: ["v\u0304", "backward"],
  };

  /** An arrow from box a down to box b or, on the walk back, up from b to a. */
  function arrow(svg, a, b, shift, used, back) {
    const lean = (b.x - a.x) / 4, stroke = colour(back ? "backward" : "plain");
    const [x1, y1] = [a.x + lean + shift, a.y + HEIGHT / 2];
    const [x2, y2] = [b.x - lean + shift, b.y - HEIGHT / 2];
    const [from, to] = back ? [y1 + 8, y2] : [y1, y2 - 8];
    append(svg, "path", {
      d: `M${x1} ${from}C${x1} ${y1 + 16} ${x2} ${y2 - 16} ${x2} ${to}`,
      fill: "none", stroke, "stroke-width": used ? 3.2 : 1.4,
    });
    const d = back ? `M${x1} ${y1}l-5 10h10z` : `M${x2} ${y2}l-5 -10h10z`;
    append(svg, "path", { d, fill: stroke });
  }

  function box(svg, name, line, { x, y }, rx, known, current) {
    const group = append(svg, "g", { "data-name": name, "text-anchor": "middle" });
    append(group, "rect", {
      x: x - BOX / 2, y: y - HEIGHT / 2, width: BOX, height: HEIGHT, rx,
      fill: "currentColor", "fill-opacity": current ? "0.06" : "0",
      stroke: colour("forward"), "stroke-width": current ? 3.2 : 1.4,
    });
    append(group, "text", { x, y: y - 11 }, line);
    Object.entries(known).forEach(([key, number], k) => {
      const [symbol, name] = ROWS[key];
      group.dataset[key] = number;
      append(group, "text", { x, y: y + 5 + 16 * k, fill: ink(name) },
        `${symbol} = ${text(number)}`);
    });
  }

  /** Draw the graph, with what is known after a step. */
  function show(svg, { title, inputs, lines, rows }, { node, edges, known }) {
    const at = {}, heard = [];
    rows.forEach((row, k) => row.split(" ").forEach((name, j, { length }) => {
      at[name] = { x: WIDTH * (j + 0.5) / length, y: 3 + HEIGHT / 2 + PITCH * k };
    }));
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${6 + HEIGHT + PITCH * (rows.length - 1)}`);
    svg.replaceChildren();
    const sources = Object.keys(inputs).map(name => ({ name, line: name, args: [] }));
    for (const { name, line, args } of [...sources, ...lines.map(parse)]) {
      args.forEach((arg, i) => {
        if (!at[arg]) return; // a constant
        const used = edges.some(([head, j]) => head === name && j === i);
        const below = at[args[1]] && at[arg].x === at[name].x;
        arrow(svg, at[arg], at[name], below ? 36 * i - 18 : 0, used, used && name !== node);
      });
      const numbers = known[name] ?? {};
      box(svg, name, line, at[name], args.length ? 3 : 16, numbers, name === node);
      heard.push([line, ...Object.entries(numbers).map(([key, number]) =>
        `${key} ${text(number)}`)].join(", "));
    }
    svg.setAttribute("aria-label", `The graph of ${title}. ${heard.join("; ")}.`);
  }

  customElements.define("live-sweep", class extends LiveFigure {
    build() {
      const mode = this.getAttribute("mode") ?? "reverse";
      this.graph = this.picture(`sweep-${mode}`, WIDTH, 1);
      this.graph.setAttribute("font-size", 13);
      this.panel();
      this.expression = this.menu("Expression");
      for (const [value, { title }] of Object.entries(EXPRESSIONS))
        append(this.expression, "option", { value }, title);
      this.expression.value = this.getAttribute("expression") ?? "running";
      this.sweep = this.menu("Sweep");
      this.previous = this.button("Previous", () => { this.step -= 1; });
      this.next = this.button("Next", () => { this.step += 1; });
      this.expression.addEventListener("input", () => this.choose(!this.sweep.value));
      this.sweep.addEventListener("input", () => this.start());
      addEventListener("beforeprint", () => { this.step = Infinity; this.draw(); });
      this.choose(mode === "reverse");
    }

    menu(name) {
      return append(append(this.controls, "label", {}, name), "select");
    }

    choose(reverse) {
      this.chosen = EXPRESSIONS[this.expression.value];
      this.sweep.replaceChildren();
      for (const name of Object.keys(this.chosen.inputs))
        append(this.sweep, "option", { value: name }, `forward, along ${name}`);
      append(this.sweep, "option", { value: "" }, "reverse");
      if (reverse) this.sweep.value = "";
      this.start();
    }

    start() {
      this.steps = sweep(this.chosen, this.sweep.value);
      this.step = 0;
    }

    draw() {
      const last = this.steps.length - 1;
      this.step = Math.min(Math.max(this.step, 0), last);
      const step = this.steps[this.step];
      show(this.graph, this.chosen, step);
      this.status.textContent = `Step ${this.step} of ${last}. ${step.said.join("\n")}`;
      // Not disabled, for then the focus would be lost.
      this.previous.setAttribute("aria-disabled", this.step === 0);
      this.next.setAttribute("aria-disabled", this.step === last);
    }
  });
})();
