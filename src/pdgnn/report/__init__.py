"""What pdgnn found out, shown to people: as text (`text`) and as pictures (`plots`)."""
