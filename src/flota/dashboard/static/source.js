// Where the data comes from: the server of this page, or the page itself if it is the file of a finished job.

const inlined = document.getElementById("data");
const stored = inlined && JSON.parse(inlined.textContent);
export const isFile = Boolean(stored);

export class Refused extends Error {
  constructor(status, words) { super(words); this.status = status; }
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error || `status ${answer.status}`);
  return body;
}

const post = (path, value) => ask(path, { method: "POST", headers: { "X-Flota": "1" }, body: JSON.stringify(value) });

// The token is in the fragment of the link, which browsers do not send. It is exchanged for a cookie, and removed.
export async function logIn() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (isFile || !token) return;
  history.replaceState(null, "", location.pathname);
  await post("api/login", { token });
}

export const act = (verb, seat) => post(`api/${verb}`, { seat });

export const curves = async () => (stored ? stored.curves : ask("api/curves"));
export const timeline = async () => (stored ? stored.timeline : ask("api/timeline"));
export const stacks = async () => ask("api/stacks");

export async function logLines({ role, rank, file }, offset) {
  return ask(`api/log?${new URLSearchParams({ role, rank, file, offset })}`);
}

export const foldedLines = async () => (stored ? stored.tails : ask("api/tails"));

export function follow(onSnapshot, onState) {
  if (stored) return onSnapshot(stored.snapshot);
  let ended = false;
  const stream = new EventSource("api/stream");
  stream.onmessage = (message) => {
    const snapshot = JSON.parse(message.data);
    ended = !snapshot.live;
    onState("");
    onSnapshot(snapshot);
    if (ended) stream.close();
  };
  stream.onerror = () => {
    if (ended) return;
    ask("api/curves").catch((error) => {
      const words = error.status === 401 ? "This page needs the link that flota printed, with its token." : "The connection to the job is lost: flota has ended, or the network has a problem.";
      onState(words, error.status === 401);
      if (error.status === 401) stream.close();
    });
  };
  return stream;
}
