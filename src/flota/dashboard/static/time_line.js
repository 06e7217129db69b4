// Rounds and failures as bars, and below them the same in words.

import { byId, count, duration, make, setText } from "./text.js";

const SPACE = "http://www.w3.org/2000/svg";
const MOST_EVENTS = 60;

function svg(tag, attributes, text) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.append(Object.assign(document.createElementNS(SPACE, "title"), { textContent: text }));
  return element;
}

export function showTimeline(data, job, live) {
  const began = job.began || data.began, now = live ? job.now : Math.max(job.now, data.ended);
  const rounds = data.rounds, width = 400, x = (at) => Math.max(0, Math.min(width, ((at - began) / Math.max(1, now - began)) * width));
  const picture = svg("svg", { viewBox: `0 0 ${width} 44`, width: "100%", role: "img", "aria-label": `${rounds.length} rounds in ${duration(now - began)}` });
  picture.append(svg("rect", { x: 0, y: 8, width, height: 16, rx: 4, fill: "var(--soft)" }));
  rounds.forEach((round, number) => {
    const end = round.ended ?? now, last = number === rounds.length - 1;
    const kind = round.failed ? "round failed" : last && live ? "round" : "round past";
    const words = `round ${round.round}: ${duration(end - round.began)}${round.failed ? `, ${round.failed} failed` : ""}`;
    picture.append(svg("rect", { class: kind, x: x(round.began), y: 8, width: Math.max(2, x(end) - x(round.began) - 1), height: 16, rx: 3 }, words));
    for (const failure of round.failures) picture.append(svg("line", { class: "fail", x1: x(failure.at), x2: x(failure.at), y1: 4, y2: 28 }, failure.text));
  });
  for (const mark of data.marks) picture.append(svg("circle", { class: "mark", cx: x(mark.at), cy: 16, r: 4 }, mark.text));
  for (const [at, anchor, words] of [[0, "start", "0s"], [width, "end", duration(now - began)]]) {
    const text = svg("text", { x: at, y: 40, "text-anchor": anchor });
    text.textContent = words;
    picture.append(text);
  }
  byId("timeline").replaceChildren(picture);
  setText(byId("timeline-note"), `${count(rounds.length)} round${rounds.length === 1 ? "" : "s"}`);
  byId("events").replaceChildren(...eventRows(data, job, began));
}

function eventRows(data, job, began) {
  const rows = [];
  for (const round of data.rounds) {
    rows.push([round.began, `round ${round.round} started${round.nodes > 1 ? ` on ${round.nodes} nodes` : ""}`, ""]);
    for (const one of round.failures) rows.push([one.at, `${one.text}${one.node ? ` on ${one.node}` : ""}`, "bad"]);
    const hidden = round.failed - round.failures.length;
    if (hidden > 0) rows.push([round.failures.at(-1).at, `${hidden} more failed`, "bad"]);
  }
  for (const restart of job.restarts) rows.push([restart.at, `restart: ${restart.reason}`, ""]);
  for (const mark of data.marks) rows.push([mark.at, mark.text, ["hang_found", "shepherd_lost"].includes(mark.kind) ? "bad" : ""]);
  const latest = rows.map((row, number) => [...row, number]).sort((one, other) => other[0] - one[0] || other[3] - one[3]).slice(0, MOST_EVENTS);
  return latest.map(([at, words, cls]) => make("li", {}, make("time", { text: duration(Math.max(0, at - began)) }), make("span", { cls, text: words })));
}
