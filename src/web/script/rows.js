// Rows that keys move through: those of what was found, or those of a table.
let rowAt = -1;

function rows() {
  const found = all('#results:not([hidden]) .hit');
  return found.length ? found : all('#rows tr, #outputs tbody tr');
}

function chooseRow(at) {
  const list = rows();
  if (!list.length) return;
  list.forEach(row => row.classList.remove('chosen'));
  rowAt = Math.min(list.length - 1, Math.max(0, at));
  const row = list[rowAt];
  row.classList.add('chosen');
  one('a', row)?.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
}
