mod held {
    use crate::bridge::*;

    fn question(id: &str) -> HeldQuestion {
        HeldQuestion::new(id.to_owned(), format!("\"method\":\"m{id}\""), None)
    }

    #[test]
    fn questions_have_keys_and_are_told_once_more_until_answered() {
        let mut call = HeldCall::new(0, 7);
        assert!(call.add(question("1")) && call.add(question("2")));
        assert_eq!(call.input_requests(), r#"{"q1":{"method":"m1"},"q2":{"method":"m2"}}"#);
        assert!(call.is_sent && call.questions.iter().all(|question| question.is_sent));
        for n in 2..MAX_QUESTIONS {
            assert!(call.add(question(&n.to_string())), "{n}");
        }
        assert!(!call.add(question("x")));
    }

    #[test]
    fn a_call_is_taken_once_and_the_oldest_goes_first() {
        let held = HeldCalls::default();
        for n in 0..MAX_HELD as u64 {
            assert!(held.put(HeldCall::new(0, n)).1.is_none());
        }
        let (number, oldest) = held.put(HeldCall::new(0, 999));
        assert_eq!(oldest.map(|call| call.request), Some(0));
        assert_eq!(held.take(number).map(|call| call.request), Some(999));
        assert!(held.take(number).is_none());
        assert!(held.change(number, |_| ()).is_none());
    }

    #[test]
    fn what_a_server_gives_up_is_forgotten() {
        let held = HeldCalls::default();
        let mut call = HeldCall::new(1, 7);
        call.add(question("1"));
        let (number, _) = held.put(call);
        let early = |upstream, id| EarlyQuestion {
            upstream,
            ask: InputKind::Roots,
            question: question(id),
        };
        assert!(held.put_early(early(1, "2")) && held.put_early(early(2, "1")));
        assert!(!held.forget(0, "1"));
        assert!(held.forget(1, "1") && !held.forget(1, "2"), "for one of them a call is held");
        assert_eq!(held.change(number, |call| call.questions.len()), Some(0));
        assert_eq!(held.take_early(1, |_| true).len(), 0);
        assert_eq!(held.take_early(2, |_| false).len(), 0);
        assert_eq!(held.take_early(2, |_| true).len(), 1);
    }

    #[test]
    fn a_server_that_has_ended_waits_for_nothing() {
        let held = HeldCalls::default();
        let mut call = HeldCall::new(1, 7);
        call.add(question("1"));
        let (number, _) = held.put(call);
        held.put_early(EarlyQuestion {
            upstream: 1,
            ask: InputKind::Roots,
            question: question("2"),
        });
        held.forget_all(1);
        let waits = |call: &mut HeldCall| call.questions[0].is_waited_for();
        assert_eq!(held.change(number, waits), Some(false));
        assert!(held.take_early(1, |_| true).is_empty());
    }

    #[test]
    fn early_questions_are_bounded_for_each_server() {
        let held = HeldCalls::default();
        let early =
            |upstream| EarlyQuestion { upstream, ask: InputKind::Roots, question: question("1") };
        for _ in 0..MAX_QUESTIONS {
            assert!(held.put_early(early(1)));
        }
        assert!(!held.put_early(early(1)));
        assert!(held.put_early(early(2)));
    }
}

mod question_room {
    use crate::bridge::*;

    #[test]
    fn questions_are_bounded_by_number_and_bytes() {
        let room = QuestionRoom::default();
        assert!(room.place(u64::MAX).is_none() && room.place(QUESTION_BYTES as u64 + 1).is_none());
        let whole = room.place(QUESTION_BYTES as u64);
        assert!(whole.is_some() && room.place(1).is_none());
        drop(whole);
        let many: Vec<_> = std::iter::from_fn(|| room.place(1)).collect();
        assert_eq!(many.len(), QUESTION_BYTES / MIN_QUESTION_COST);
    }
}

mod subscriptions {
    use crate::bridge::*;

    #[test]
    fn notifications_wait_once_each_and_in_a_bounded_number() {
        let mut listener =
            Subscription { filter: SubscriptionFilter::default(), early: Some(Vec::new()) };
        for number in 0..2 * MAX_EARLY_NOTICES {
            for _ in 0..3 {
                assert_eq!(listener.take(number.to_string().into_bytes()), None);
            }
        }
        assert_eq!(listener.early.as_ref().map(Vec::len), Some(MAX_EARLY_NOTICES));
        listener.early = None;
        assert_eq!(listener.take(b"x".to_vec()), Some(b"x".to_vec()));
    }
}
