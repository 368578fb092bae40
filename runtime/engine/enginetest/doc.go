// Package enginetest serves the tests of engines and of what drives them.
//
// [Fake] is an engine without a model: it keeps the whole contract of package
// engine over a tiny made-up network, follows a [Script] where one is given,
// and misbehaves on request. [Run] is the other side: a suite that checks any
// engine against the contract, and against itself.
package enginetest
