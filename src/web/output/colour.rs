//! The colours of a terminal, as the names of styles.

use avt::{Color, Pen};

/// The sixteen colours of a terminal as red, green and blue.
const SIXTEEN: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// Returns the names of the styles of a pen, separated by spaces; empty for plain text.
pub(super) fn classes(pen: &Pen) -> String {
    let colours = [pen.foreground().map(|c| ('f', c)), pen.background().map(|c| ('b', c))];
    let mut names: Vec<String> = colours
        .into_iter()
        .flatten()
        .map(|(of, colour)| format!("{of}{}", nearest(colour)))
        .collect();
    let styles = [
        (pen.is_bold(), "bold"),
        (pen.is_faint(), "dim"),
        (pen.is_italic(), "italic"),
        (pen.is_underline(), "underline"),
        (pen.is_strikethrough(), "strike"),
        (pen.is_inverse(), "inverse"),
    ];
    names.extend(styles.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_owned()));
    names.join(" ")
}

/// Returns the number of the colour among sixteen that is nearest.
fn nearest(colour: Color) -> usize {
    let (red, green, blue) = match colour {
        Color::Indexed(number @ 0..16) => return usize::from(number),
        Color::Indexed(number @ 16..232) => {
            let part = |value: u8| if value == 0 { 0 } else { 55 + value * 40 };
            let number = number - 16;
            (part(number / 36), part(number / 6 % 6), part(number % 6))
        }
        Color::Indexed(number) => {
            let grey = 8 + (number - 232) * 10;
            (grey, grey, grey)
        }
        Color::RGB(rgb) => (rgb.r, rgb.g, rgb.b),
    };
    let distance = |other: &(u8, u8, u8)| {
        let apart = |a: u8, b: u8| i32::from(a.abs_diff(b)).pow(2);
        apart(red, other.0) + apart(green, other.1) + apart(blue, other.2)
    };
    let best = SIXTEEN.iter().enumerate().min_by_key(|(_, other)| distance(other));
    best.map_or(7, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_colours_become_one_of_sixteen() {
        assert_eq!(nearest(Color::Indexed(9)), 9);
        assert_eq!(nearest(Color::Indexed(196)), 9, "bright red of 256");
        assert_eq!(nearest(Color::Indexed(255)), 7);
        assert_eq!(nearest(Color::rgb(0, 200, 10)), 2);
        for number in 0..=255 {
            assert!(nearest(Color::Indexed(number)) < 16);
        }
        assert_eq!(classes(&Pen::default()), "");
    }
}
