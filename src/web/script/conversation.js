// A conversation that grows while it is looked at.
function startConversation() {
  const messages = one('#messages');
  const isNewest = !new URLSearchParams(location.search).has('before');
  follow(one('#conversation').dataset.topic, atMostEvery(100, async () => {
    while (isNewest && await addMessages(messages));
    await renewLive(messages);
    await renewOutputs();
  }));
  if (isNewest && !location.hash && !location.search) messages.lastElementChild.scrollIntoView({ block: 'end' });
}

const messagesFrom = async offset => one('#messages', await part(path + '?part=messages&after=' + offset));

// Returns true if there may be more.
async function addMessages(messages) {
  const { end } = messages.dataset;
  const more = await messagesFrom(end);
  const fresh = all('.message', more).filter(article => !document.getElementById(article.id));
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  messages.dataset.end = more.dataset.end;
  if (fresh.length) {
    one('.empty', messages)?.remove();
    messages.append(...fresh);
    const logged = one('[id^=m-]', messages);
    fresh.forEach(article => { if (!logged || article.id.startsWith('m-')) article.from = end; });
    announce(fresh.length === 1 ? '1 new message' : fresh.length + ' new messages');
    if (isAtEnd) scrollTo(0, 1e9);
  }
  return end !== more.dataset.end;
}

// Fetches again what came with calls that were live, as they may have ended.
async function renewLive(messages) {
  const live = all('.call .live', messages).map(element => element.closest('.message'));
  for (const from of new Set(live.map(article => article.from || messages.dataset.start))) {
    all('.message', await messagesFrom(from)).forEach(article => {
      const old = live.find(old => old.id === article.id);
      if (!old) return;
      article.from = old.from;
      old.replaceWith(article);
    });
  }
}

async function renewOutputs() {
  const now = one('#outputs', await part(path + '?part=outputs&' + location.search.slice(1))), list = one('#outputs');
  if (!list.contains(document.activeElement) && !list.isEqualNode(now)) list.replaceWith(now);
}
