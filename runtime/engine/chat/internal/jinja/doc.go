// Package jinja renders chat templates: the part of the Jinja2 language, as
// Hugging Face's apply_chat_template sets it up, that language models carry in
// their own files.
//
// A template is data from a stranger, so every render runs on a budget: each
// node evaluated, byte made or scanned and list slot costs work, nesting and
// calls have a depth, and the output a size. Nothing here reads a file, a
// clock or a random source, and nothing recurses without counting.
//
// Semantics follow Jinja2 3.1 with ImmutableSandboxedEnvironment,
// trim_blocks, lstrip_blocks and loop controls. Known differences: generators
// (map, select, ...) are lists; integers are 64 bits wide and overflow is an
// error; unknown filters and tests fail when they are reached; include,
// import and extends are refused when the template is parsed; safe does
// nothing, so text joined to safe text is not HTML-escaped; random, lipsum,
// cycler, xmlattr, wordwrap, filesizeformat and urlize do not exist; str.format
// takes plain fields only.
//
// Strings may carry marks, see [Marks]: a byte that came from an untrusted
// text stays recognisable in the output whatever the template does to it.
package jinja
