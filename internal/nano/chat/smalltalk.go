package chat

import "fmt"

// exchange is a question in several wordings with its one answer.
type exchange struct {
	questions []string
	answer    string
}

func exchanges() []exchange {
	return []exchange{
		{[]string{"hello", "hi", "hello!", "hi there", "good morning", "hey"}, "Hello! How can I help you?"},
		{[]string{"who are you?", "what are you?", "what is your name?"},
			"I am nano, a tiny model. I live inside Trimtab."},
		{[]string{"what can you do?", "help", "what do you know?", "how can you help me?"},
			"I can add numbers, tell you about things, tell short stories and say words."},
		{[]string{"how are you?", "how is it going?", "are you well?"}, "I am well, thank you."},
		{[]string{"thanks", "thank you", "thank you!", "thanks a lot"}, "You are welcome."},
		{[]string{"bye", "goodbye", "see you", "good night"}, "Goodbye! Come back soon."},
		{[]string{"what is trimtab?", "tell me about trimtab.", "what does trimtab do?"},
			"Trimtab steers a model while it writes."},
		{[]string{"are you big?", "how big are you?", "how large are you?"}, "I am very small, about two million numbers."},
	}
}

// unknownAnswer is the reply to what the model was never taught.
const unknownAnswer = "I do not know that. I am only a tiny model."

func unknownQuestions() []string {
	return []string{"why do %s matter?", "where do %s come from?", "who made %s?", "when did %s begin?",
		"can you draw %s?", "translate %s.", "write code for %s", "why are %s so big?", "do you like %s?", "buy me %s"}
}

// smallTalkConversation writes a greeting or the like, or a question that the
// model cannot answer with the admission that it cannot.
func smallTalkConversation(g *gen) []Message {
	if g.chance(0.4) {
		q := fmt.Sprintf(pick(g, unknownQuestions()), pick(g, topics()).name)
		return []Message{{User, g.casing(q)}, {Assistant, unknownAnswer}}
	}
	x := pick(g, exchanges())
	return []Message{{User, g.casing(pick(g, x.questions))}, {Assistant, x.answer}}
}
