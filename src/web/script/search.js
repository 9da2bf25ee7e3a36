// The search, of an output or of all of a conversation.

// A search ends the one before of the same tab.
const TAB = Date.now().toString(36) + Math.random().toString(36).slice(2);

let asked = '', searching = null;

function startSearch(query) {
  const typed = () => search(query.value);
  onTyping(query, typed, () => { if (query.value !== asked) typed(); else nextHit(1); });
  if (query.value) search(query.value);
}

async function search(text) {
  searching?.abort();
  const mine = searching = new AbortController();
  asked = text;
  clearResults();
  setAddress({ q: text });
  if (!text) return;
  const [, conversation, ...output] = one('[data-topic]').dataset.topic.split('/');
  const params = new URLSearchParams({ conversation, output: output.join('/'), q: text, tab: TAB });
  try {
    await readLines(checked(await fetch('/search/stream?' + params, mine)).body, mine.signal);
  } catch (error) { failed(error); }
}

function clearResults() {
  const results = one('#results');
  all('.first', results).forEach(element => element.remove());
  one('.hits', results).replaceChildren();
  results.tabIndex = 0;
  results.hidden = !asked;
  one('#found').textContent = '';
  rowAt = -1;
  clearHits();
}

async function readLines(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done || signal.aborted) return;
    const whole = (rest + value).split('\n');
    rest = whole.pop();
    whole.forEach(line => take(JSON.parse(line)));
    showFoundSoon();
  }
}

function take(found) {
  const list = one('.hits');
  if (found.kind === 'done') return finish(found);
  // The server may send any number.
  if (found.kind === 'match' && hits.length < 10000) hits.push(found);
  if (list.childElementCount < 1000) list.append(hitItem(found));
}

function finish({ matches, more, cancelled }) {
  if (cancelled) return;
  searching = null;
  const text = (matches === 1 ? '1 match' : matches + ' matches') + (more ? ', and more' : '');
  one('#found').textContent = text;
  announce(text);
}

function showFound() {
  if (!asked) return;
  if (searching) one('#found').textContent = hits.length + ' so far';
  drawHits();
  settle();
}

const showFoundSoon = atMostEvery(100, showFound);

function hitItem({ kind, line, output, text, href }) {
  const item = make('li', { className: { match: 'hit', note: 'notice' }[kind] || kind });
  const name = output ? output.replace('artifacts/', '') + ':' : '';
  if (output) item.dataset.output = output;
  if (line) item.dataset.line = line;
  if (line) item.append(make('a', { href, textContent: visible(name + line + ' ') }));
  item.append(make('code', { textContent: visible(text || '') }));
  return item;
}

// Shows the codes of characters that cannot be seen, as the server does.
function visible(text) {
  const hidden = /(?![\t\n]|(?<=[^\0-\x7f])[\u200d\ufe0f])[\p{Cc}\p{DI}\u2028\u2029\u2800\ufff9-\ufffb]/gu;
  return text.replace(hidden, c => 'U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0'));
}
