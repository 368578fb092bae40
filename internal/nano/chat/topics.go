package chat

// topics returns what the style family tells about.
func topics() []topic {
	return []topic{
		{"rivers", []string{"carry water to the sea", "cut deep valleys", "feed the fields"}},
		{"cats", []string{"sleep most of the day", "hunt at night", "land on their feet"}},
		{"dogs", []string{"follow their people", "guard the house", "run in the park"}},
		{"trees", []string{"give shade and fruit", "grow for many years", "hold the soil"}},
		{"clouds", []string{"bring the rain", "drift over the hills", "hide the sun"}},
		{"stars", []string{"shine at night", "guide the ships", "burn very far away"}},
		{"bees", []string{"make sweet honey", "visit many flowers", "live in a hive"}},
		{"books", []string{"hold old stories", "teach new things", "stand on the shelf"}},
		{"trains", []string{"run on iron rails", "cross the whole land", "stop at stations"}},
		{"ships", []string{"sail over the sea", "carry heavy goods", "rest in the harbour"}},
		{"mountains", []string{"rise above the clouds", "keep snow all year", "split the land"}},
		{"birds", []string{"fly south in autumn", "build small nests", "sing in the morning"}},
		{"fish", []string{"live under water", "swim in large groups", "breathe with gills"}},
		{"gardens", []string{"need water and light", "grow food for the table", "change with the seasons"}},
		{"bridges", []string{"join two banks", "carry the road", "stand on stone"}},
		{"lakes", []string{"lie between hills", "freeze in winter", "mirror the sky"}},
		{"horses", []string{"run very fast", "eat hay and grass", "pull the cart"}},
		{"cities", []string{"never sleep at night", "hold many people", "grow every year"}},
		{"islands", []string{"lie in the sea", "have sandy shores", "hide old secrets"}},
		{"forests", []string{"clean the air", "shelter many animals", "turn red in autumn"}},
		{"lions", []string{"rest in the shade", "hunt in groups", "roar at dusk"}},
		{"schools", []string{"teach the young", "open in the morning", "close in summer"}},
		{"markets", []string{"sell fresh bread", "open before dawn", "fill the old square"}},
		{"songs", []string{"tell of the past", "stay in the mind", "need no words"}},
		{"wolves", []string{"howl at the moon", "walk in packs", "avoid the village"}},
		{"apples", []string{"fall in autumn", "taste sweet or sour", "grow on trees"}},
		{"rockets", []string{"leave the ground with fire", "reach the moon", "need much fuel"}},
		{"deserts", []string{"see little rain", "burn by day", "cool down at night"}},
		{"castles", []string{"stand on high rocks", "have thick walls", "guard the valley"}},
		{"robots", []string{"work without rest", "follow exact orders", "build fast cars"}},
		{"storms", []string{"shake the windows", "break old trees", "pass in the end"}},
		{"farms", []string{"feed the whole town", "wake up early", "keep cows and hens"}},
	}
}
