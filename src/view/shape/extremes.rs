/// The least and the greatest of a set of values, once there is a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extremes<T>(Option<(T, T)>);

impl<T> Default for Extremes<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy + PartialOrd> Extremes<T> {
    pub(super) fn push(&mut self, value: T) {
        self.0 = Some(match self.0 {
            None => (value, value),
            Some((least, most)) => {
                (if value < least { value } else { least }, if value > most { value } else { most })
            }
        });
    }

    pub(super) fn add(&mut self, other: &Self) {
        if let Some((least, most)) = other.0 {
            self.push(least);
            self.push(most);
        }
    }

    pub(super) fn ends(&self) -> Option<(T, T)> {
        self.0
    }

    /// Returns `2..18`, or `2` if all values are equal.
    pub(super) fn shown(&self, show: impl Fn(T) -> String) -> Option<String> {
        let (least, most) = self.0?;
        Some(if least == most { show(least) } else { format!("{}..{}", show(least), show(most)) })
    }
}
