// The list of conversations.
function startFront() {
  const filter = one('#filter');
  onTyping(filter, async () => {
    setAddress({ q: filter.value, page: '' });
    if (await renewList()) announce(one('#list').dataset.found + ' found');
  });
  follow('/', atMostEvery(500, renewList));
}

// Returns false if it was not renewed.
async function renewList() {
  const { search } = location;
  const list = await part('/?part=table&' + search.slice(1)).catch(failed);
  const old = one('#list');
  if (!list || search !== location.search || old.contains(document.activeElement)) return false;
  old.replaceWith(list);
  rowAt = -1;
  return true;
}
