/* What the live figures share. A live figure is a custom element around its still pictures,
   which stay where no script runs. Plain scripts, so that they work from file://, too. */
"use strict";

/** Append a new element; inside an <svg> it is one of SVG. Numbers are rounded to 0.1. */
function append(parent, tag, attributes = {}, text = "") {
  const space = tag === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI;
  const element = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, typeof value === "number" ? Math.round(value * 10) / 10 : value);
  element.textContent = text;
  return parent.appendChild(element);
}

/** One of the five colours of the book: forward, backward, right, wrong, plain. */
const colour = name => `var(--live-${name})`;

/** A subclass says what to build, once, and how to draw the state of its controls. */
class LiveFigure extends HTMLElement {
  connectedCallback() {
    if (this.controls) return;
    this.replaceChildren(); // the still pictures
    this.build();
    this.addEventListener("input", () => this.draw());
    this.draw();
  }

  /** An empty picture; tools/draw_stills.py stores it as live/NAME.svg. */
  picture(name, width, height) {
    return append(this, "svg", {
      "data-still": name, role: "img", viewBox: `0 0 ${width} ${height}`,
      "font-family": "sans-serif", "font-size": 12, fill: "currentColor",
    });
  }

  /** The row of controls, and below it the sentence that a screen reader reads out. */
  panel() {
    this.controls = append(this, "div");
    this.status = append(this, "p", { role: "status" });
  }

  /** A group of radio buttons; this.value(name) is the value of the chosen one. */
  choice(name, legend, labels) {
    const group = append(this.controls, "fieldset");
    append(group, "legend", {}, legend);
    Object.entries(labels).forEach(([value, text], i) => {
      const label = append(group, "label");
      const input = append(label, "input", { type: "radio", name: `${this.localName}-${name}`, value });
      input.checked = i === 0;
      label.append(text);
    });
  }

  value(name) {
    return this.querySelector(`[name="${this.localName}-${name}"]:checked`).value;
  }

  /** A button, in a row with the others; the figure is drawn anew after the action. */
  button(text, action) {
    this.buttons ??= append(this.controls, "div");
    const button = append(this.buttons, "button", { type: "button" }, text);
    button.addEventListener("click", () => { action(); this.draw(); });
    return button;
  }
}
