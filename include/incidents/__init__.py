"""What a person must know of a running application: kinds that stages declare, and a ledger of what is open."""
