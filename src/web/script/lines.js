// The lines of an output: a window that grows where the reader goes, and shrinks behind.
let box = null, lines = null, position = null;
// The request for other rows, and whether one for more rows is under way.
let replacing = null, isExtending = false;

const number = name => Number(lines.dataset[name]);
const isAtEnd = () => number('end') >= box.dataset.size;
const left = () => box.scrollHeight - box.scrollTop - box.clientHeight;
const isNear = distance => distance < 2 * box.clientHeight;

function startLines() {
  box = one('#text');
  lines = one('#lines');
  position = one('#position');
  position.hidden = false;
  errors = all('#contents .errors a').map(link => Number(link.dataset.line)).sort((a, b) => a - b);
  findErrors().catch(failed);
  startPlace();
  took();
  follow(box.dataset.topic, changed);
  if (/[?&]end=1(&|$)/.test(location.search)) goToEnd(); else goToFragment();
  fill();
}

function setSize(size) {
  box.dataset.size = position.max = size;
}

async function rowsAt(params, controller) {
  const before = box.dataset.size;
  const fresh = one('#lines', await part(path + '?part=lines&view=' + box.dataset.view + '&' + params, controller));
  const { size, lines: total } = fresh.dataset;
  // It may be less, as outputs can be cut; but an event may have told of more meanwhile.
  setSize(box.dataset.size === before ? size : Math.max(size, box.dataset.size));
  if (total) box.dataset.lines = total;
  return fresh;
}

// Returns false if that failed, or the reader has gone elsewhere.
async function show(params) {
  replacing?.abort();
  const mine = replacing = new AbortController();
  const fresh = await rowsAt(params, mine).catch(failed);
  if (mine !== replacing) return false;
  replacing = null;
  if (fresh) put(fresh, 0);
  return !!fresh;
}

function put(fresh, top) {
  lines.replaceWith(fresh);
  lines = fresh;
  setTop(top);
  took();
  settle();
  goOn();
}

function took() {
  drawHits();
  numberLater();
}

// Keeps two screens of rows below and above.
function fill() {
  if (isExtending || replacing) return;
  if (!isAtEnd() && (following || isNear(left()))) grow();
  else if (number('start') > 0 && isNear(box.scrollTop)) extend(false);
}

const fillLater = atMostEvery(5000, fill);

async function extend(down) {
  isExtending = true;
  const more = await extended(down).catch(error => { failed(error); fillLater(); });
  isExtending = false;
  if (isDue || more) goOn();
}

// Returns true unless that led nowhere.
async function extended(down) {
  const was = lines, { start, end, atEnd } = lines.dataset;
  // A line may have gone on where the output ended.
  const last = atEnd === 'true' && lines.lastElementChild;
  const fresh = await rowsAt(down ? 'from=' + (last ? last.dataset.offset : end) : 'before=' + start);
  if (lines !== was) return true;
  if (box.dataset.size < number('end')) return show(following ? 'end=1' : 'from=0');
  inPlace(() => (down ? append(fresh) : prepend(fresh)));
  took();
  const now = lines.dataset;
  return start !== now.start || end !== now.end || atEnd !== now.atEnd;
}

function append(fresh) {
  const rows = [...fresh.children], last = lines.lastElementChild;
  if (last && rows[0]?.dataset.offset === last.dataset.offset) {
    if (rows[0].textContent === last.textContent) rows.shift(); else last.remove();
  }
  lines.append(...rows);
  const { end, last: line = '', atEnd } = fresh.dataset;
  Object.assign(lines.dataset, { end: Math.max(end, number('end')), last: line, atEnd });
  if (trim('firstElementChild')) lines.dataset.start = lines.firstElementChild.dataset.offset;
}

function prepend(fresh) {
  lines.prepend(...fresh.children);
  const { start, first = '' } = fresh.dataset;
  Object.assign(lines.dataset, { start, first });
  const cut = trim('lastElementChild');
  if (cut) Object.assign(lines.dataset, { end: cut.dataset.offset, atEnd: false });
}

// Removes the rows that are too many for any screen on one side, and returns the last of them.
function trim(side) {
  const most = Math.max(1000, 8 * box.clientHeight / lineHeight());
  let cut = null;
  while (lines.childElementCount > most) {
    cut = lines[side];
    cut.remove();
  }
  return cut;
}

// The lines of a large output are counted while it is shown.
const numberLater = atMostEvery(1500, renumber);

async function renumber() {
  const bare = one('.line:not([data-line])', lines), row = topRow();
  if (!bare) return;
  announce('Lines are being counted.');
  const { first } = (await rowsAt('from=' + bare.dataset.offset)).dataset;
  const fresh = first && await rowsAt('from=' + row.dataset.offset);
  if (fresh && topRow() === row) put(fresh, topOf(box) - topOf(row)); else numberLater();
}
