// Begins, in a page or as the worker.

function startPage() {
  document.documentElement.classList.add('js');
  one('#help-button').hidden = false;
  prepare(document);
  onClick('[data-copy]', copy);
  onClick('#help-button', () => one('#help').showModal());
  if (one('#filter')) startFront();
  if (one('#conversation')) startConversation();
  if (one('#text')) startLines();
  if (one('#tree')) startTree();
  if (one('#query')) startSearch(one('#query'));
  startKeys();
}

if (typeof document === 'undefined') shareEvents(); else startPage();
