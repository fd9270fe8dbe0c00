//! Wraps text for people to the width of a terminal. Clap's own wrapping needs another dependency, and covers only its
//! help.

/// The widest line: a terminal beside an editor.
const WIDTH: usize = 100;

/// The text with long lines broken between words. Continuations are indented to the text they continue: in a table of
/// flags, the second column.
pub(crate) fn wrapped(text: &str) -> String {
    text.lines().map(wrapped_line).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let column = line[indent..].find("  ").map_or(indent, |gap| {
        let gap = indent + gap;
        gap + line[gap..].len() - line[gap..].trim_start().len()
    });
    let (head, text) = line.split_at(column);
    let (mut wrapped, mut width) = (head.to_owned(), column);
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 && width + 1 + word.chars().count() > WIDTH {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(column));
            width = column;
        } else if index > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += word.chars().count();
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_between_words_and_goes_on_below_its_text() {
        let (words, more) = ("word ".repeat(18), "word ".repeat(2));
        check("a short line", "a short line");
        check(&format!("  {words}{more}end"), &format!("  {words}word\n  word end"));
        check(&format!("  -a <N>  {words}{more}end"), &format!("  -a <N>  {words}\n          {more}end"));
        check(&format!("{words}{more}\n\nb"), &format!("{words}{more}\n\nb"));
        let (line, rest) = (["ten-digits"; 7].join(" "), "ten-digits ten-digits");
        check(
            &format!("  Limit       {line} {rest}"),
            &format!("  Limit       {line}\n              {rest}"),
        );
    }

    fn check(text: &str, expected: &str) {
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&wrapped(text)), trimmed(expected));
    }
}
