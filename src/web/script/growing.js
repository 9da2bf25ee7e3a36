// An output that grows while it is looked at.

// Whether there is more to fetch after what is being fetched.
let isDue = false;

function changed({ size, live }) {
  const known = Number(box.dataset.size), hasEnded = !live && box.dataset.live === 'true';
  box.dataset.live = live;
  if (size > known) setSize(size);
  // Less may be old news, or the output was cut: its rows tell.
  if (size < known || size > known && (following || isNear(left()))) grow();
  if (size !== known || hasEnded) { renewFacts(); renewErrors(); }
  if (hasEnded) announce('It is complete.');
}

// Jumps to the end if that is followed, and more than a window away.
function grow() {
  isDue = isExtending || replacing !== null;
  if (isDue) return;
  if (following && box.dataset.size - number('end') > 65536) show('end=1'); else extend(true);
}

function goOn() {
  if (isDue) grow(); else fill();
}

const renewFacts = atMostEvery(1000, async () => one('#facts').replaceWith(await part(path + '?part=facts')));
const renewErrors = atMostEvery(2000, findErrors);
