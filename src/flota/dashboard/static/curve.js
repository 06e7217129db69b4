// One chart: lines over time, with a band between two of them, on a canvas.

import { colour, hideTip, make, moment, showTip } from "./text.js";

const LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 22;

export class Curve {
  // `series`: names of columns with their colours; `band`: two columns between which it is filled.
  constructor(parent, title, series, { band = null, format = String, note = "" } = {}) {
    this.series = series;
    this.band = band;
    this.format = format;
    this.canvas = make("canvas", { role: "img" });
    this.title = title;
    this.panel = make("section", { cls: "panel" });
    this.now = make("span", { cls: "note" });
    const keys = series.length > 1 || band ? series.map(([, name, css]) => make("span", { cls: `key${css === "--curve-2" ? " two" : ""}`, text: name })) : [];
    if (band) keys.push(make("span", { cls: "key band", text: note }));
    this.panel.append(make("div", { cls: "head" }, make("h2", { text: title }), this.now, ...keys), make("div", { cls: "chart" }, this.canvas));
    parent.append(this.panel);
    this.waiting = false;
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.at = null; hideTip(); this.draw(); });
  }

  show(data, began) {
    this.data = data;
    this.began = began;
    const [name] = this.series[0], values = (data.values[name] || []).filter((one) => one !== null);
    const last = values.at(-1);
    this.now.textContent = last === undefined ? "" : this.format(last);
    const range = values.length ? `now ${this.format(last)}, lowest ${this.format(Math.min(...values))}, highest ${this.format(Math.max(...values))}` : "no values yet";
    this.canvas.setAttribute("aria-label", `${this.title} over time: ${range}`);
    this.draw();
  }

  draw() {
    if (this.waiting || !this.data) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const { canvas, data } = this, scale = devicePixelRatio || 1, pen = canvas.getContext("2d");
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const shown = [...new Set([...this.series.map(([name]) => name), ...(this.band || [])])];
    const all = shown.flatMap((name) => data.values[name] || []).filter((one) => one !== null);
    pen.font = "11px system-ui, sans-serif";
    if (!all.length) {
      pen.fillStyle = colour("--muted");
      pen.fillText("no values yet", LEFT, height / 2);
      return;
    }
    const [low, high, ticks] = axis(Math.min(...all), Math.max(...all));
    const from = data.at[0], to = Math.max(data.at.at(-1), from + 10);
    this.x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
    this.y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
    this.grid(pen, ticks, from, to, width, height);
    if (this.band) this.fillBand(pen);
    for (const [name, , css] of this.series) this.line(pen, data.values[name] || [], colour(css));
    if (this.at !== null && this.at !== undefined) {
      pen.strokeStyle = colour("--muted");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(this.x(data.at[this.at]), TOP);
      pen.lineTo(this.x(data.at[this.at]), height - BOTTOM);
      pen.stroke();
    }
  }

  grid(pen, ticks, from, to, width, height) {
    pen.strokeStyle = colour("--grid");
    pen.fillStyle = colour("--muted");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    for (const tick of ticks) {
      const y = Math.round(this.y(tick)) + 0.5;
      pen.beginPath(); pen.moveTo(LEFT, y); pen.lineTo(width - RIGHT, y); pen.stroke();
      pen.fillText(this.format(tick), LEFT - 8, y + 4);
    }
    const parts = width < 420 ? 2 : 4;
    for (let number = 0; number <= parts; number += 1) {
      const at = from + ((to - from) * number) / parts;
      pen.textAlign = number === 0 ? "left" : number === parts ? "right" : "center";
      pen.fillText(moment(Math.max(0, at - this.began), to - from), this.x(at), height - 6);
    }
    pen.textAlign = "start";
  }

  line(pen, values, css) {
    pen.strokeStyle = css;
    pen.lineWidth = values.length > 300 ? 1.2 : values.length > 3 ? 1.8 : 4;
    pen.lineJoin = pen.lineCap = "round";
    pen.beginPath();
    let open = false;
    values.forEach((value, index) => {
      if (value === null) { open = false; return; }
      const x = this.x(this.data.at[index]), y = this.y(value);
      if (open) pen.lineTo(x, y); else pen.moveTo(x, y);
      if (!open && (values[index + 1] ?? null) === null) pen.lineTo(x + 0.1, y); // a dot
      open = true;
    });
    pen.stroke();
  }

  fillBand(pen) {
    const [below, above] = this.band.map((name) => this.data.values[name] || []);
    const known = this.data.at.map((_, index) => index).filter((index) => below[index] != null && above[index] != null);
    if (!known.length) return;
    pen.fillStyle = colour("--band");
    pen.beginPath();
    known.forEach((index) => pen.lineTo(this.x(this.data.at[index]), this.y(above[index])));
    known.reverse().forEach((index) => pen.lineTo(this.x(this.data.at[index]), this.y(below[index])));
    pen.fill();
  }

  point(event) {
    if (!this.data?.at.length || !this.x) return;
    const x = event.clientX - this.canvas.getBoundingClientRect().left, { at, values } = this.data;
    this.at = at.reduce((best, one, index) => (Math.abs(this.x(one) - x) < Math.abs(this.x(at[best]) - x) ? index : best), 0);
    const names = [...this.series.map(([name, label]) => [name, label]), ...(this.band || []).map((name) => [name, name])];
    const lines = names.filter(([name]) => values[name]?.[this.at] != null).map(([name, label]) => `${label} ${this.format(values[name][this.at])}`);
    const step = values.step?.[this.at];
    const head = `${moment(at[this.at] - this.began, 0)}${step != null ? `, step ${step.toLocaleString("en-US")}` : ""}`;
    showTip([head, ...new Set(lines)].join("\n"), event.clientX, event.clientY);
    this.draw();
  }
}

// Round numbers around the values, three to six of them.
function axis(least, most) {
  if (least === most) { const room = Math.abs(least) / 10 || 1; least -= room; most += room; }
  if (least > 0 && least < most * 0.4) least = 0;
  const rough = (most - least) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const low = Math.floor(least / step) * step, high = Math.ceil(most / step) * step, ticks = [];
  for (let tick = low; tick <= high + step / 2; tick += step) ticks.push(Number(tick.toPrecision(10)));
  return [low, high, ticks];
}
