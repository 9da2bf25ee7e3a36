//! A lost session with a server over HTTP, which is begun again.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::timeout;

use super::{Handling, Link, Outcome, TELLING};
use crate::manager::{HANDSHAKE, Inbox, own_request, request};
use crate::message::Outgoing;
use crate::remote::head::Head;

impl<I: Inbox> Link<I> {
    /// Begins the session again that was lost when `before` others were.
    pub(super) async fn renew(self: &Arc<Self>, before: u64) -> Result<(), String> {
        let _turn = self.renewing.lock().await;
        if self.session.lock().is_known(before) {
            return Ok(());
        }
        let handshake = self.upstream.handshake();
        let parameters = handshake.initialize.ok_or("there is nothing to begin it again with")?;
        self.around.log.say(&self.upstream.name, "ended the session; it is begun again");
        self.forget();
        // What it asked in the lost session, it does not wait for.
        self.around.inbox.failed(&self.upstream, Vec::new(), "ended the session").await;
        self.upstream.forget_asked();
        let begun = timeout(HANDSHAKE, self.initialize(&parameters)).await;
        begun.map_err(|_| "the new session did not begin in time".to_owned())??;
        self.say("notifications/initialized", None).await?;
        if let Some(level) = &handshake.level {
            self.say("logging/setLevel", Some(level)).await?;
        }
        self.listen();
        Ok(())
    }

    fn forget(&self) {
        let mut session = self.session.lock();
        session.id = None;
        session.version = None;
        session.lost += 1;
        session.is_over = true;
        if let Some(listener) = session.listener.take() {
            listener.abort();
        }
    }

    async fn initialize(&self, parameters: &str) -> Result<(), String> {
        let (number, answer) = own_request(&self.upstream);
        let message: Outgoing = request(number, "initialize", parameters).into();
        if let Err(why) = self.send_own(&message).await {
            self.upstream.take(number);
            return Err(why);
        }
        let answer = answer.await.map_err(|_| "the new session was not begun".to_owned())??;
        let answer: Value = serde_json::from_str(answer.text()).unwrap_or_default();
        if answer["result"].is_object() {
            return Ok(());
        }
        Err(format!("the new session was refused: {}", answer["error"]["message"]))
    }

    async fn say(&self, method: &str, parameters: Option<&str>) -> Result<(), String> {
        let Some(parameters) = parameters else {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            return self.send_own(&text.into_bytes().into()).await;
        };
        let (number, _answer) = own_request(&self.upstream);
        let sent = self.send_own(&request(number, method, parameters).into()).await;
        self.upstream.take(number);
        sent
    }

    /// Sends a message of the gateway's own.
    async fn send_own(&self, message: &Outgoing) -> Result<(), String> {
        let head = Head::of(message).ok_or("the message is none")?;
        let sent = async {
            let response = self.post(message, &head).await?;
            match self.answered(response, &head, &Handling::default()).await? {
                Outcome::Done => Ok(()),
                Outcome::NoSession(why) => Err(why),
            }
        };
        timeout(TELLING, sent).await.map_err(|_| "did not take a message in time".to_owned())?
    }
}
