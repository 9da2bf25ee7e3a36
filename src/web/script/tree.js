// JSON as a tree: its nodes open on demand.
function startTree() {
  onClick('#tree a.open', link => toggle(itemOf(link)));
  onClick('#tree .window a', link => turnTo(link).catch(failed));
  one('#tree').addEventListener('keydown', event => {
    const item = itemOf(event.target), act = TREE_KEYS[event.key];
    if (!item || !act || isOfBrowser(event) || event.target.closest('button')) return;
    event.preventDefault();
    event.stopPropagation();
    act(item);
  });
}

const itemOf = element => element.closest('[role=treeitem]');
const isOpen = item => item.getAttribute('aria-expanded') === 'true';
const groupOf = item => one(':scope > [role=group]', item);
const openerOf = item => one(':scope > a, :scope > .row > a.open', item);
const membersAt = async link => one('[role=group]', await part(link.href + '&part=json'));

function focusFrom(item, by) {
  const items = all('#tree [role=treeitem]').filter(item => !item.parentNode.closest('[aria-expanded=false]'));
  focusItem(items[items.indexOf(item) + by]);
}

function focusItem(item) {
  if (!item) return;
  all('#tree [tabindex="0"]').forEach(other => { other.tabIndex = -1; });
  item.tabIndex = 0;
  item.focus();
}

async function toggle(item) {
  const open = !isOpen(item);
  try {
    const group = groupOf(item) || await membersAt(openerOf(item));
    // It may have been opened meanwhile.
    if (!groupOf(item)) item.append(group);
  } catch (error) { return failed(error); }
  groupOf(item).hidden = !open;
  item.setAttribute('aria-expanded', open);
  setAddress({ view: 'json', json: open && item.dataset.path, at: '' });
}

async function turnTo(link) {
  const back = link.className === 'next' ? '.previous' : '.next';
  const fresh = [...(await membersAt(link)).children].filter(item => !one(':scope > ' + back, item));
  itemOf(link).replaceWith(...fresh);
  focusItem(fresh[0]);
}

const TREE_KEYS = {
  ArrowDown: item => focusFrom(item, 1),
  ArrowUp: item => focusFrom(item, -1),
  ArrowRight: item => (item.getAttribute('aria-expanded') === 'false' ? toggle(item) : focusFrom(item, 1)),
  ArrowLeft: item => (isOpen(item) ? toggle(item) : focusItem(itemOf(item.parentNode))),
  Enter: item => openerOf(item)?.click(),
};
