// Events come over one connection for all tabs, as a browser opens only six to a host: a worker that
// runs this script too has it.
const tabs = new Map(), told = new Map();
let source = null, watched = '', connecting = 0;

function shareEvents() {
  self.onconnect = event => serve(event.ports[0]);
  setInterval(dropSilent, 30000);
}

function serve(port) {
  port.onmessage = ({ data }) => enroll(port, data);
}

// A tab names its topic once it is seen or asked, and none once it is hidden or gone.
function enroll(port, topic) {
  const isNew = !tabs.has(port);
  if (topic) tabs.set(port, { topic, isThere: true }); else tabs.delete(port);
  // The server tells how things are only to a new connection.
  if (isNew && told.has(topic)) port.postMessage(told.get(topic));
  connectIn(50);
}

// A tab that was killed does not answer. One that only slept is back with its answer.
function dropSilent() {
  tabs.forEach((tab, port) => {
    if (!tab.isThere) return tabs.delete(port);
    tab.isThere = false;
    port.postMessage({ isThere: true });
  });
  connectIn(50);
}

function connectIn(wait) {
  clearTimeout(connecting);
  connecting = setTimeout(connect, wait);
}

function connect() {
  const topics = [...new Set([...tabs.values()].map(tab => tab.topic))].sort().slice(0, 128);
  const query = topics.map(topic => 'watch=' + encodeURIComponent(topic)).join('&');
  if (query === watched && source?.readyState !== 2) return;
  source?.close();
  told.clear();
  watched = query;
  source = query ? listen(query) : null;
}

function listen(query) {
  const source = new EventSource('/events?' + query);
  source.addEventListener('changed', event => tell(JSON.parse(event.data)));
  // A new connection tells what was missed.
  source.addEventListener('missed', () => { source.close(); connectIn(50); });
  source.onerror = () => { if (source.readyState === 2) connectIn(5000); };
  return source;
}

function tell(change) {
  told.set(change.topic, change);
  tabs.forEach((tab, port) => { if (tab.topic === change.topic) port.postMessage(change); });
}

function follow(topic, changed) {
  const port = self.SharedWorker ? new SharedWorker(one('script[src]').src, 'ctxfs').port : ownPort();
  const enrolled = () => port.postMessage(document.hidden ? '' : topic);
  port.onmessage = ({ data }) => { if (data.isThere) enrolled(); else changed(data); };
  document.addEventListener('visibilitychange', enrolled);
  enrolled();
}

// Without such workers, a page does what one would do.
function ownPort() {
  const { port1, port2 } = new MessageChannel();
  serve(port1);
  return port2;
}
