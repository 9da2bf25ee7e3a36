// Keys, as in less.
function startKeys() {
  document.addEventListener('keydown', event => {
    const field = event.target.closest('input:not([type=range]), textarea, select');
    if (field && event.key === 'Escape') field.blur();
    if (field || isOfBrowser(event)) return;
    const help = one('#help'), act = help.open ? 'q?'.includes(event.key) && (() => help.close()) : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

const KEYS = {
  '/': goToField,
  '?': () => one('#help').showModal(),
  n: () => nextHit(1),
  N: () => nextHit(-1),
  g: () => (box ? goToBeginning() : scrollTo(0, 0)),
  G: () => (box ? goToEnd() : scrollTo(0, 1e9)),
  j: () => move(1),
  k: () => move(-1),
  e: () => box && nextError(),
  w: () => box && inPlace(() => box.classList.toggle('nowrap')),
  q: goUp,
};

function move(by) {
  if (box) box.scrollTop += by * lineHeight(); else chooseRow(rowAt + by);
}

function goToField() {
  const field = one('#query, #filter');
  field?.focus();
  field?.select();
}

function goUp() {
  if (one('#results:not([hidden])')) {
    one('#query').value = '';
    search('');
  } else location.href = all('.trail a').pop()?.href || '/';
}
