// The hits of a search, and errors: marks on lines and beside the position, the next and the one before.
let hits = [], hitAt = -1;
// The lines that look like errors, in order.
let errors = [];

function clearHits() {
  hits = [];
  hitAt = -1;
  all('#lines mark').forEach(mark => mark.replaceWith(...mark.childNodes));
  all('#lines .hit').forEach(row => {
    row.classList.remove('hit');
    row.normalize();
  });
  drawHits();
}

function drawHits() {
  if (!box) return;
  const regex = pattern(asked), found = new Set(hits.map(hit => String(hit.line)));
  all('.line:not(.hit)', lines).filter(row => found.has(row.dataset.line)).forEach(row => {
    row.classList.add('hit');
    if (regex) markText(one('code', row), regex);
  });
  const marks = marksAt(errors, 'mark error').concat(marksAt(hits.map(hit => hit.line), 'mark'));
  one('#marks').replaceChildren(...(Number(box.dataset.lines) ? marks : []));
}

function marksAt(lines, className) {
  const step = Math.ceil(lines.length / 500);
  return lines.filter((_, number) => number % step === 0).map(line => markAt(line, className));
}

function markAt(line, className) {
  const mark = make('span', { className });
  mark.dataset.line = line;
  mark.style.top = Math.min(99.7, 100 * (line - 1) / box.dataset.lines) + '%';
  return mark;
}

// Returns what to mark within lines, or nothing: where something repeats, the browser's engine may
// take for ever, unlike ripgrep's.
function pattern(query) {
  const options = /^(?:-(?!- )\S* )*/.exec(query)[0];
  const text = query.slice(options.length).replace(/^-- /, '');
  const isFixed = /(^| )-[a-zA-Z]*F/.test(options);
  if (!text || text.length > 200 || !isFixed && /[*+?{}()]/.test(text.replace(/\\./g, ''))) return null;
  const source = isFixed ? text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') : text;
  try { return new RegExp(source, /(^| )-[a-zA-Z]*[iS]/.test(options) ? 'giu' : 'gu'); } catch { return null; }
}

function markText(node, regex) {
  if (!node.data) return [...node.childNodes].forEach(child => markText(child, regex));
  if (node.data.length > 4000) return;
  const found = [...node.data.matchAll(regex)].filter(match => match[0]).slice(0, 50);
  // The last one first, as each ends the node.
  found.reverse().forEach(match => {
    const range = document.createRange();
    range.setStart(node, match.index);
    range.setEnd(node, match.index + match[0].length);
    range.surroundContents(make('mark'));
  });
}

function nextHit(by) {
  if (!hits.length) return announce(asked ? 'No match.' : 'Search first: press /');
  if (hitAt < 0 && by < 0) hitAt = 0;
  hitAt = (hitAt + by + hits.length) % hits.length;
  announce('match ' + (hitAt + 1) + ' of ' + hits.length);
  if (box) goToLine(hits[hitAt].line); else chooseRow(hitAt);
}

function goToHit({ parentNode: item }) {
  hitAt = rows().indexOf(item);
  goToLine(Number(item.dataset.line));
}

async function findErrors() {
  const found = await textAt(path + '?part=errors');
  errors = found ? found.split(' ').map(Number) : [];
  drawHits();
}

function nextError() {
  const now = one('.chosen', lines) || topRow();
  if (!errors.length) return announce('No line looks like an error.');
  goToLine(errors.find(line => line > now?.dataset.line) || errors[0]);
}
