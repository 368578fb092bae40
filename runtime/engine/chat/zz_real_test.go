package chat
import ("testing";"os")
func TestReal(t *testing.T){ d:=os.Getenv("REAL"); if d!="" { judgeDir(t,d,os.Getenv("GOLD")) } }
