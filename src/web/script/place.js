// The place in an output: what is seen, where the reader goes, what the address says.

// True from the key for the end on, until the reader scrolls up.
let following = false;
let lastTop = 0;
// Shows again what the reader went to, as what is around it changes, until the reader acts.
let goal = null;
let isLoaded = false;

const topOf = element => element.getBoundingClientRect().top;
const shiftOf = row => topOf(row) - topOf(box);
const lineHeight = () => 1.5 * parseFloat(getComputedStyle(box).fontSize);
const isSeen = row => shiftOf(row) > -lineHeight() / 2 && shiftOf(row) < box.clientHeight - lineHeight();
const rowOf = line => one('#L' + line) || all('.line', lines).find(row => row.dataset.line >= line);

function startPlace() {
  ['wheel', 'touchmove', 'keydown', 'pointerdown'].forEach(type => {
    addEventListener(type, () => { goal = null; }, { capture: true, passive: true });
  });
  // Until then, the browser itself scrolls to the fragment.
  addEventListener('load', () => requestAnimationFrame(() => setTimeout(() => { settle(); isLoaded = true; })));
  box.addEventListener('scroll', () => { heed(); fill(); sayPlace(); }, { passive: true });
  new ResizeObserver(() => { settle(); fill(); }).observe(box);
  addEventListener('hashchange', goToFragment);
  position.addEventListener('input', atMostEvery(40, goToPosition));
  onClick('.line[id] > .number', link => goToLine(Number(link.textContent)));
  onClick('#contents a', link => goToLine(Number(link.dataset.line)));
  onClick('#results li[data-line] a', goToHit);
  onClick('.pager .first', goToBeginning);
  onClick('.pager .last', goToEnd);
  onClick('.pager .previous', () => turn(-.9));
  onClick('.pager .next', () => turn(.9));
}

// Only a reader scrolls up, unless the end comes nearer: the box gets higher, or lines shorter.
function heed() {
  if (isLoaded && box.scrollTop !== lastTop) goal = null;
  if (box.scrollTop < lastTop - 1 && left() > 4) following = false;
  lastTop = box.scrollTop;
}

function setTop(top) {
  box.scrollTop = top;
  lastTop = box.scrollTop;
}

function settle() {
  if (goal) goal(); else if (following) setTop(box.scrollHeight);
}

// Changes rows around what is seen.
function inPlace(change) {
  heed();
  const row = topRow(), shift = row && shiftOf(row);
  change();
  if (row?.isConnected) setTop(box.scrollTop + shiftOf(row) - shift);
  settle();
  fill();
}

// The first row of which more than half a line is seen.
function topRow() {
  const edge = topOf(box) + lineHeight() / 2;
  return all('.line', lines).find(row => row.getBoundingClientRect().bottom > edge);
}

// Browsers allow three changes a second.
const sayPlace = atMostEvery(350, () => {
  const row = topRow(), chosen = one('.chosen', lines);
  if (!row) return;
  const { line, column, offset } = row.dataset;
  position.value = offset;
  const place = following ? { end: '1' } : column ? { from: offset } : line ? { line } : { at: offset };
  const hash = chosen && isSeen(chosen) ? location.hash : '';
  setAddress({ line: '', at: '', from: '', before: '', end: '', ...place, view: box.dataset.view }, hash);
});

function leave(isToEnd = false) {
  following = isToEnd;
  goal = null;
  replacing?.abort();
}

function turn(by) {
  box.scrollTop += by * box.clientHeight;
}

function reach(place) {
  goal = () => { box.scrollIntoView({ block: 'nearest' }); place(); };
  goal();
  sayPlace();
}

function goToFragment() {
  const line = /^#L(\d+)$/.exec(location.hash);
  if (line) goToLine(Number(line[1]));
}

async function goToLine(line) {
  leave();
  if (!one('#L' + line) && !await show('line=' + Math.max(1, line - 5))) return;
  const row = rowOf(line);
  if (!row) return;
  const shift = isSeen(row) ? shiftOf(row) : box.clientHeight / 4;
  setAddress({}, '#L' + line);
  reach(() => choose(line, shift));
}

function choose(line, shift) {
  const row = rowOf(line);
  one('.chosen', lines)?.classList.remove('chosen');
  if (!row) return;
  row.classList.add('chosen');
  setTop(box.scrollTop + shiftOf(row) - shift);
}

async function goToEnd() {
  leave(true);
  if (!isAtEnd() && !await show('end=1')) return;
  announce(box.dataset.live === 'true' ? 'Following the end.' : 'The end.');
  reach(() => setTop(box.scrollHeight));
}

async function goToBeginning() {
  leave();
  if (number('start') > 0 && !await show('from=0')) return;
  reach(() => setTop(0));
}

async function goToPosition() {
  leave();
  if (await show('at=' + position.value)) sayPlace();
}
