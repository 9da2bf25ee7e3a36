'use strict';

// What all pages share.
const path = location.pathname;
const one = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const make = (name, properties) => Object.assign(document.createElement(name), properties);

let announced = 0;

function announce(text) {
  const status = one('#status');
  status.textContent = text;
  clearTimeout(announced);
  announced = setTimeout(() => { status.textContent = ''; }, 4000);
}

function failed(error) {
  if (error.name !== 'AbortError') announce('That did not work: ' + error.message);
}

// Does `work` once however often it is asked for meanwhile, and never twice at a time.
function atMostEvery(wait, work) {
  let timer = 0, isBusy = false;
  const ask = () => { timer = timer || setTimeout(run, wait); };
  const run = async () => {
    timer = 0;
    if (isBusy) return ask();
    isBusy = true;
    try { await work(); } catch (error) { failed(error); }
    isBusy = false;
  };
  return ask;
}

function onTyping(field, typed, sent = typed) {
  let timer = 0;
  field.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(typed, 120); });
  field.form.addEventListener('submit', event => { event.preventDefault(); sent(); });
}

function checked(answer) {
  if (answer.ok) return answer;
  throw new Error(answer.status === 401 ? 'open the link that ctxfs web printed' : 'error ' + answer.status);
}

async function textAt(address, controller = new AbortController()) {
  const timer = setTimeout(() => controller.abort(new Error('no answer')), 30000);
  try {
    return await checked(await fetch(address, controller)).text();
  } finally { clearTimeout(timer); }
}

// The server escapes what it sends.
async function part(address, controller) {
  const { content } = make('template', { innerHTML: await textAt(address, controller) });
  prepare(content);
  return content;
}

function prepare(from) {
  all('time', from).forEach(time => { time.title = new Date(time.dateTime).toLocaleString(); });
  all('.scripted', from).forEach(element => { element.hidden = false; });
}

function setAddress(params, hash = location.hash) {
  const now = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(params)) {
    if (value) now.set(name, value); else now.delete(name);
  }
  const text = path + (String(now) && '?' + now) + hash;
  if (text !== path + location.search + location.hash) history.replaceState(null, '', text);
}

const isOfBrowser = event => event.ctrlKey || event.metaKey || event.altKey;

function onClick(selector, act) {
  document.addEventListener('click', event => {
    const element = event.target.closest(selector);
    if (!element || isOfBrowser(event) || event.shiftKey) return;
    event.preventDefault();
    act(element);
  });
}

async function copy({ dataset }) {
  try {
    await navigator.clipboard.writeText(dataset.from ? await textAt(dataset.from) : dataset.text);
    announce('Copied the ' + dataset.copy + '.');
  } catch (error) { failed(error); }
}
